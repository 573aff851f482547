//go:build race

package simulation

// histories is how many of them a run under the race detector plays, which
// makes each of them some ten times slower.
const histories = 1_000
