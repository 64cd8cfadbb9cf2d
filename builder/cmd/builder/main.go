// Command builder makes market-data snapshots and looks after the store that
// holds them. Run it with --help.
package main

func main() { program().Main() }
