package main

import _ "github.com/goascend/cann/internal/emu/export" // the C symbols

func main() {}
