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
		verdict.Honour("model.type", "BPE, over bytes with the decoder ByteLevel, else over characters; WordPiece; Unigram; others are refused"),
		verdict.Honour("model.vocab", "tokens and their ids, or of Unigram their scores"),
		verdict.Honour("model.merges", "pairs that become one token, in order"),
		verdict.Honour("model.ignore_merges", "whether a word that is a token stays whole"),
		verdict.Honour("model.dropout", "refused unless 0: encoding would be random"),
		verdict.Honour("model.unk_token", "of BPE over characters and of WordPiece, for what is unknown"),
		verdict.Honour("model.unk_id", "of Unigram, the same"),
		verdict.Honour("model.max_input_chars_per_word", "of WordPiece: longer words are unknown"),
		verdict.Honour("model.continuing_subword_prefix", "of WordPiece, before tokens inside of words; of BPE refused unless empty"),
		verdict.Honour("model.end_of_word_suffix", "refused unless empty"),
		verdict.Honour("model.byte_fallback", "of a model over characters, whether unknown ones become their bytes"),
		verdict.Honour("model.fuse_unk", "of a model over characters, whether unknown ones side by side are one token"),
	},
	stages("normalizer.", "normalizers.", 3, []verdict.Key{
		verdict.Honour("type", "NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, Nmt, Precompiled, BertNormalizer, Prepend, Replace or Sequence; others are refused"),
		verdict.Honour("normalizers", "of a Sequence"),
		verdict.Honour("pattern", "of a Replace"),
		verdict.Honour("content", "of a Replace"),
		verdict.Honour("prepend", "of a Prepend"),
		verdict.Honour("clean_text", "of BertNormalizer: without control characters"),
		verdict.Honour("handle_chinese_chars", "of BertNormalizer: spaces around ideographs"),
		verdict.Honour("strip_accents", "of BertNormalizer; where it is missing, what lowercase is"),
		verdict.Honour("lowercase", "of BertNormalizer"),
		verdict.Honour("strip_left", "of Strip"),
		verdict.Honour("strip_right", "of Strip"),
		verdict.Honour("precompiled_charsmap", "of Precompiled: the table of characters of a model of SentencePiece"),
	}),
	stages("pre_tokenizer.", "pretokenizers.", 3, []verdict.Key{
		verdict.Honour("type", "Sequence, Split, Digits, ByteLevel, Metaspace, Whitespace, WhitespaceSplit, Punctuation, CharDelimiterSplit or BertPreTokenizer; others are refused"),
		verdict.Honour("pretokenizers", "of a Sequence"),
		verdict.Honour("pattern", "of a Split"),
		verdict.Honour("behavior", "of a Split or Punctuation"),
		verdict.Honour("delimiter", "of a CharDelimiterSplit"),
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
	stages("post_processor.", "processors.", 3, []verdict.Key{
		verdict.Honour("type", "ByteLevel, TemplateProcessing, BertProcessing, RobertaProcessing or Sequence; others are refused"),
		verdict.Honour("cls", "of BertProcessing and RobertaProcessing, the token before a text, or a pair"),
		verdict.Honour("sep", "of BertProcessing and RobertaProcessing, the token behind a text, and between two"),
		verdict.Honour("processors", "of a Sequence"),
		verdict.Honour("single", "what stands around a text"),
		verdict.Honour("pair", "what stands around two texts, of which a reranker reads the types of the tokens too"),
		verdict.Honour("special_tokens", "ids of the tokens around a text"),
		verdict.NoEffect("add_prefix_space", "of ByteLevel, which changes offsets only"),
		verdict.NoEffect("trim_offsets", "offsets are not returned"),
		verdict.NoEffect("use_regex", "of ByteLevel, which changes offsets only"),
	}),
	[]verdict.Key{
		verdict.Honour("decoder.decoders", "of a Sequence"),
		verdict.Honour("decoder.decoders.start", "of a Strip"),
		verdict.Honour("decoder.decoders.stop", "of a Strip; refused unless 0"),
	},
	stages("decoder.", "decoders.", 2, []verdict.Key{
		verdict.Honour("type", "ByteLevel, Metaspace, WordPiece, or a Sequence of Replace, ByteFallback, Fuse and Strip; others are refused"),
		verdict.Honour("prefix", "of WordPiece: tokens with it go on with a word"),
		verdict.Honour("cleanup", "of WordPiece: no space before punctuation and English contractions"),
		verdict.Honour("pattern", "of a Replace"),
		verdict.Honour("content", "of a Replace or a Strip"),
		verdict.Honour("replacement", "of a Metaspace"),
		verdict.Honour("prepend_scheme", "of a Metaspace"),
		verdict.Honour("add_prefix_space", "of a Metaspace without prepend_scheme"),
		verdict.NoEffect("split", "of a Metaspace, which decodes the same"),
		verdict.NoEffect("str_rep", "of a Metaspace, the same as replacement"),
		verdict.NoEffect("trim_offsets", "offsets are not returned"),
		verdict.NoEffect("use_regex", "bytes are decoded as they are"),
	}),
)}

// stages are the keys of a part of a tokenizer, and of its parts where it is a Sequence, so deep. The parts of the deepest are refused.
func stages(part, parts string, depth int, keys []verdict.Key) (all []verdict.Key) {
	for level := range depth {
		for _, k := range keys {
			if level == depth-1 && k.Name+"." == parts {
				k = verdict.Refuse(k.Name, "Sequences are not read so deep", "[]")
			}
			k.Name = part + k.Name
			all = append(all, k)
		}
		part += parts
	}
	return all
}
