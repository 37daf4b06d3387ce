// Package dataset reads text to train on: files of JSON lines, Parquet files, text files, and folders of
// them. It turns samples into token ids and fills the rows of batches with them.
//
//	d, err := dataset.Open(path, dataset.Options{Tokenizer: tok, Template: template, End: eos, Seed: 1})
//	defer d.Close()
//	rows, err := d.Rows(8, 1024, dataset.Packed, 1) // the next batch
//	at := d.Position()                               // and where the one after it begins
//
// The order of samples is random, and depends on the files and the seed only; so do the rows, on all
// ranks alike, of which each takes its own. Memory does not grow with the number of samples: 4096 are
// held at a time. Lines that cannot be used are counted, and the first is named.
//
// Parquet files need a reader, package parquet below this one, which the option of that name takes. A row
// of such a file is a sample as a line of JSON is, with the columns text, messages, or prompt and
// response; other columns are not read. To go to a row in the middle can cost as much as to read what
// comes before it in its row group. So the rows of a group are read in their order, 4096 at a time are
// shuffled, and only the groups come in random order: write files with small ones, or shuffled rows.
package dataset
