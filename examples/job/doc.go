// Package job starts the ranks of a program, watches them, and joins their errors. It belongs to the programs of this folder, and does
// not depend on a model.
//
//	err := job.Each(ctx, groups, func(ctx context.Context, group *world.Group) error {
//		return train(ctx, group) // one goroutine a rank
//	})
//	// rank 2: aclnn: allocating …        the cause
//	// rank 0: … a rank was lost         what followed from it
package job
