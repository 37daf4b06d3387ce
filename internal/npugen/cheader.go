package main

func runBind(args []string) error    { return nil }
func runHeaders(args []string) error { return nil }
