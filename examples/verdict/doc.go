// Package verdict says what becomes of each key of a JSON file that others wrote, such as config.json: whether a
// reader follows it, whether it changes no result and why, or whether it is refused. A reader decodes the file
// through its table, so that no key is passed over in silence, and the documentation prints the same table.
//
//	var table = verdict.Table{Format: "adapter_config.json", Keys: []verdict.Key{
//		verdict.Honour("r", "rank of the products"),
//		verdict.NoEffect("peft_version", "the program that wrote the folder"),
//		verdict.Refuse("use_dora", "the norms of DoRA are not computed", "false"),
//	}}
//	warnings, err := table.Decode(text, &config)
//
// A key inside of an object is written after the object's key and a dot ("rope_scaling.factor"); objects in
// arrays count as the object itself, and reports name them with brackets ("added_tokens[].content"). An object without such keys on the table is one value.
package verdict
