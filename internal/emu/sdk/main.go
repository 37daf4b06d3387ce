package main

import _ "github.com/goascend/cann/internal/emu/machine" // with the C symbols

func main() {}
