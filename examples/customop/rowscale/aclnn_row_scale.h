#ifndef ACLNN_ROW_SCALE_H_
#define ACLNN_ROW_SCALE_H_

#include "aclnn/acl_meta.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Multiplies each row of a matrix by a number of its own.
 * x [rows, columns], scale [rows], biasOptional [rows] or null, out as x: float32, float16 or bfloat16.
 * out[i, j] = x[i, j] * scale[i] * factor + bias[i]
 */
__attribute__((visibility("default"))) aclnnStatus aclnnRowScaleGetWorkspaceSize(
    const aclTensor *x, const aclTensor *scale, const aclTensor *biasOptional, double factor, const aclTensor *out,
    uint64_t *workspaceSize, aclOpExecutor **executor);

__attribute__((visibility("default"))) aclnnStatus aclnnRowScale(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
