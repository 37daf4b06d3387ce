//go:build parquet

package main

import "github.com/goascend/cann/examples/dataset/parquet"

// openParquet reads Parquet files.
var openParquet = parquet.Open
