package nn

import (
	"fmt"
	"maps"
	"slices"
	"sort"
)

// implementations are the operators of every family. A family is a table in its file.
var implementations = collect(
	activations,
	adaptiveNorms,
	addedNorms,
	attentionTable,
	bags,
	barriers,
	binaries,
	blockQuantisations,
	boundedGates,
	boundedQuantGates,
	cacheWrites,
	causalConvolutions,
	classLosses,
	complexes,
	compressions,
	contractions,
	crossProducts,
	cumulatives,
	decoding,
	deformables,
	deformedConvolutions,
	deltaRule,
	dequantGates,
	distances,
	divergences,
	distributions,
	dropouts,
	embeddings,
	experts,
	exponentCodes,
	factorisations,
	fakeQuantisations,
	feedForwards,
	filling,
	foreachTable,
	formatTable,
	fourierTransforms,
	fused,
	fusedExchanges,
	fusedExperts,
	gatedUnits,
	grids,
	groupNorms,
	groupQuantisations,
	groupedFused,
	groupedTable,
	indexing,
	inferenceTable,
	jagged,
	latentAttentions,
	layers,
	joined,
	likelihoods,
	linkTests,
	losses,
	lossScalings,
	maskedSoftmaxes,
	maskPools,
	matmulTable,
	mixedProducts,
	modulations,
	moving,
	norms,
	optimizers,
	orderings,
	packedHeads,
	pointwiseLosses,
	quantActivations,
	quantBatchNorms,
	quantConvolutions,
	quantNorms,
	quantPacks,
	quantParams,
	quantisations,
	randomSlopes,
	randoms,
	reading,
	rearranging,
	recurrences,
	reductions,
	ropeCaches,
	rotary,
	rotations,
	samplings,
	searches,
	segmentSums,
	sequenceLosses,
	silentChecks,
	slopes,
	softmaxes,
	sparseAttentions,
	sparseProducts,
	stridedSlices,
	sums,
	transports,
	triangularSystems,
	unary,
	uniques,
	vocabularyLosses,
	writing,
)

func collect(tables ...table) map[string]Prepare {
	all := make(map[string]Prepare)
	for _, t := range tables {
		for name, prepare := range t {
			if _, twice := all[name]; twice {
				panic(fmt.Sprintf("operator %s is implemented twice", name))
			}
			all[name] = prepare
		}
	}
	return all
}

// Implemented lists the operators that compute, by name without "aclnn", sorted.
func Implemented() []string { return slices.Sorted(maps.Keys(implementations)) }

// Name is the C name of an operator's phase two, by the operator's number.
func Name(id int) string { return "aclnn" + operators[id].name }

// find returns the table entry of an operator, or nil.
func find(name string) *operator {
	i := sort.Search(len(operators), func(i int) bool { return operators[i].name >= name })
	if i == len(operators) || operators[i].name != name {
		return nil
	}
	return &operators[i]
}
