//go:build !parquet

package main

import (
	"errors"
	"os"

	"github.com/goascend/cann/examples/dataset"
)

// openParquet refuses Parquet files: their reader would be a tenth of what the first build compiles.
func openParquet(*os.File) (dataset.Table, error) {
	return nil, errors.New("this trainstep cannot read Parquet files: build it with -tags parquet, or write the samples as JSON lines")
}
