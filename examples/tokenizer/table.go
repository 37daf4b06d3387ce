package tokenizer

import (
	"slices"

	"github.com/goascend/cann/examples/verdict"
)

// Table says what becomes of each key of tokenizer.json.
var Table = verdict.Table{Format: "tokenizer.json", Keys: slices.Concat([]verdict.Key{
	verdict.NoEffect("version", "of the format"),
	verdict.NoEffect("truncation", "texts are not cut"),
	verdict.NoEffect("padding", "texts are not padded"),
	verdict.Honour("added_tokens", "tokens that are found before a text is split, each with id, content, single_word, lstrip, rstrip, normalized and special; other members are refused"),
},
	[]verdict.Key{
		verdict.Honour("model.type", "BPE: over bytes with the decoder ByteLevel, else over characters; others are refused"),
		verdict.Honour("model.vocab", "tokens and their ids"),
		verdict.Honour("model.merges", "pairs that become one token, in order"),
		verdict.Honour("model.ignore_merges", "whether a word that is a token stays whole"),
		verdict.Honour("model.dropout", "refused unless 0: encoding would be random"),
		verdict.Honour("model.unk_token", "of a model over characters, for those that are unknown"),
		verdict.Honour("model.continuing_subword_prefix", "refused unless empty"),
		verdict.Honour("model.end_of_word_suffix", "refused unless empty"),
		verdict.Honour("model.byte_fallback", "of a model over characters, whether unknown ones become their bytes"),
		verdict.Honour("model.fuse_unk", "of a model over characters, whether unknown ones side by side are one token"),
	},
	stages("normalizer.", "normalizers.", []verdict.Key{
		verdict.Honour("type", "NFC, NFD, NFKC, NFKD, Lowercase, Prepend, Replace or Sequence; others are refused"),
		verdict.Honour("normalizers", "of a Sequence"),
		verdict.Honour("pattern", "of a Replace"),
		verdict.Honour("content", "of a Replace"),
		verdict.Honour("prepend", "of a Prepend"),
	}),
	stages("pre_tokenizer.", "pretokenizers.", []verdict.Key{
		verdict.Honour("type", "Sequence, Split, Digits, ByteLevel or, before others, Metaspace; others are refused"),
		verdict.Honour("pretokenizers", "of a Sequence"),
		verdict.Honour("pattern", "of a Split"),
		verdict.Honour("behavior", "of a Split"),
		verdict.Honour("invert", "of a Split"),
		verdict.Honour("individual_digits", "of Digits"),
		verdict.Honour("add_prefix_space", "of ByteLevel, and of a Metaspace without prepend_scheme"),
		verdict.Honour("replacement", "of a Metaspace"),
		verdict.Honour("prepend_scheme", "of a Metaspace"),
		verdict.Honour("split", "of a Metaspace"),
		verdict.NoEffect("str_rep", "of a Metaspace, the same as replacement"),
		verdict.Honour("use_regex", "of ByteLevel"),
		verdict.NoEffect("trim_offsets", "offsets are not returned"),
	}),
	stages("post_processor.", "processors.", []verdict.Key{
		verdict.Honour("type", "ByteLevel, TemplateProcessing or Sequence; others are refused"),
		verdict.Honour("processors", "of a Sequence"),
		verdict.Honour("single", "what stands around a text"),
		verdict.NoEffect("pair", "texts are not encoded in pairs"),
		verdict.Honour("special_tokens", "ids of the tokens around a text"),
		verdict.NoEffect("add_prefix_space", "of ByteLevel, which changes offsets only"),
		verdict.NoEffect("trim_offsets", "offsets are not returned"),
		verdict.NoEffect("use_regex", "of ByteLevel, which changes offsets only"),
	}),
	stages("decoder.", "decoders.", []verdict.Key{
		verdict.Honour("type", "ByteLevel, Metaspace, or a Sequence of Replace, ByteFallback, Fuse and Strip; others are refused"),
		verdict.Honour("decoders", "of a Sequence"),
		verdict.Honour("pattern", "of a Replace"),
		verdict.Honour("content", "of a Replace or a Strip"),
		verdict.Honour("start", "of a Strip"),
		verdict.Honour("stop", "of a Strip; refused unless 0"),
		verdict.Honour("replacement", "of a Metaspace"),
		verdict.Honour("prepend_scheme", "of a Metaspace"),
		verdict.Honour("add_prefix_space", "of a Metaspace without prepend_scheme"),
		verdict.NoEffect("split", "of a Metaspace, which decodes the same"),
		verdict.NoEffect("str_rep", "of a Metaspace, the same as replacement"),
		verdict.NoEffect("trim_offsets", "offsets are not returned"),
		verdict.NoEffect("use_regex", "bytes are decoded as they are"),
	}),
)}

// stages are the keys of a part of a tokenizer, and of its parts where it is a Sequence of Sequences.
func stages(part, parts string, keys []verdict.Key) (all []verdict.Key) {
	for range 3 {
		for _, k := range keys {
			k.Name = part + k.Name
			all = append(all, k)
		}
		part += parts
	}
	return all
}
