package nn

// layers are the operators of networks other than transformers.
var layers = merge(convolutions, pools, paddings)
