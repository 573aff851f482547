//go:build !race

package simulation

// histories is how many of them a normal run plays.
const histories = 10_000
