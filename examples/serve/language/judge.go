package language

// Judge is a language whose pairs, a query and a document, are prompts that ask a model whether the document meets the query, in the form that Qwen3-Reranker was
// trained with. The model answers yes or no with its next token. task describes the search; JudgeTask is the description in that model's card.
func Judge(l Language, task string) Language { return judge{l, task} }

// JudgeTask is the task of a judge for searches in general.
const JudgeTask = "Given a web search query, retrieve relevant passages that answer the query"

type judge struct {
	Language
	task string
}

func (j judge) EncodePair(query, document string, most int) (ids, types []int32, err error) {
	ids, err = j.Encode("<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. "+
		`Note that the answer can only be "yes" or "no".`+"<|im_end|>\n<|im_start|>user\n<Instruct>: "+j.task+"\n<Query>: "+query+"\n<Document>: "+document+
		"<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n", most)
	return ids, make([]int32, len(ids)), err
}
