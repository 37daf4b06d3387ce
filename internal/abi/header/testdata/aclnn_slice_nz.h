/* aclnnStatus aclnnNotMe(int x); */
#ifndef ACLNN_SLICE_NZ_H_
#define ACLNN_SLICE_NZ_H_ \
    aclnnStatus aclnnNorMe(int x);
#include "aclnn/acl_meta.h"
#ifdef __cplusplus
extern "C" {
#endif
// sizes of the slice
struct Shape { int64_t n; };
__attribute__((visibility("default")))
aclnnStatus aclnnSliceNzGetWorkspaceSize(
    const aclTensor *x,
    aclTensor const *biasOptional, /* may be null */
    const aclIntArray* sizes, int64_t dim, double scale = 1.0,
    char *mode, bool keep_dims, float eps, aclDataType dtype,
    aclTensorList *out,
    uint64_t *workspaceSize,
    aclOpExecutor **executor);

ACLNN_API aclnnStatus aclnnSliceNz(void *workspace, uint64_t workspaceSize,
    aclOpExecutor *executor, const aclrtStream stream);
aclnnStatus aclnnHelper(void);
inline aclnnStatus aclnnInline(int a) { return a; }
#ifdef __cplusplus
}
#endif
#endif
