// Package simulation plays random histories against what keeps a server alive:
// the real supervisor, breaker and catalog, in simulated time, against a
// scripted world. All of it is a test, TestSimulation.
//
// In a history the server dies, hangs, refuses, answers late, wants an
// authorization, comes back, dies again; callers call and give up; operators
// operate; the configuration is reloaded; sessions of the past speak up; hours
// pass; and the host shuts down, each at any moment and often several in the
// same one. A second server, which is well all the time, must notice nothing.
//
// After every step, or every burst of simultaneous ones, the invariants are
// checked: see check_test.go. Every call is held to its bound, its
// outcome and the truth of its error: see calls_test.go. Most histories end
// with the world being mended, after which the server must be back within a
// stated time, by itself or with the help of calls: see mend_test.go.
//
//	go test ./internal/simulation                                # 10,000 histories; 1,000 with -race
//	go test ./internal/simulation -timeout 0 -sim.seeds=1000000  # by hand
//	go test ./internal/simulation -sim.first=4711 -sim.seeds=1   # one of them again
//
// A history is a function of its seed, up to the order in which goroutines run
// within one instant. One that fails is printed: when, in which state, what
// happened.
package simulation
