package nn

// layers are the operators of networks other than transformers.
var layers = merge(batchNorms, convolutions, paddings, pools, resizings)
