// Package parquet reads the samples of Parquet files for package dataset:
//
//	d, err := dataset.Open("train.parquet", dataset.Options{Tokenizer: tok, Parquet: parquet.Open})
//
// It is a package of its own because the decoders of Parquet's compressions take long to compile. Its
// tests are those of package dataset.
package parquet
