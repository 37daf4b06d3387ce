// Package dataset reads text to train on: files of JSON lines, JSON arrays, Parquet files, text files, files of token ids, and folders of
// them, also compressed by gzip or zstd, whatever their names (a compressed file is unpacked into a temporary one). The first bytes of a file decide:
// what begins as JSON or with the magic number of another format is never read as text. It turns samples into token ids and fills the rows of batches with them.
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
// A sample is a JSON object with a text; or messages, a conversation, with tools; or a prompt with a response. These are also read as other
// programs write them: query or instruction, with an input below it, in place of prompt; completion or output in place of
// response; system and history, earlier prompts with their responses, before it; and ShareGPT's conversations of turns from
// human, gpt, system and observation. A message or a turn of the assistant with "loss": false or "weight": 0 is not learnt. Two forms in one sample, or
// a part that its form has no place for, make it a bad one. The tables Keys, MessageKeys and TurnKeys have the verdicts of all keys: images are refused, and what is
// not read, or not named in the text of the chat template, stands in the report, or with Options.Strict makes a bad sample. A sample that takes too much time
// (budget.ErrTime) is an error: ranks would differ in which samples they learn from.
//
// With Options.Pairs a sample has two answers: a prompt, a text or messages, with chosen and rejected, texts or messages; or chosen and rejected, two whole
// conversations; or a sample as above with rejected_response, or rejected_messages, beside it. A margin may say by how much the first is better.
//
// Parquet files need a reader, package parquet below this one, which the option of that name takes. A row
// of such a file is a sample as a line of JSON is, with the same columns. To go to a row in the middle can cost as much as to read what
// comes before it in its row group. So the rows of a group are read in their order, 4096 at a time are
// shuffled, and only the groups come in random order: write files with small ones, or shuffled rows.
package dataset
