/* What Open MPI takes for an all-reduce: lines of bytes and microseconds per call, for the
 * sizes from argv[1] to argv[2], each four times the last, argv[3] calls each after 10 others. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	int rank;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (argc != 4) {
		fprintf(stderr, "usage: %s first last calls\n", argv[0]);
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	long first = atol(argv[1]), last = atol(argv[2]);
	int calls = atoi(argv[3]);
	for (long size = first; size <= last; size *= 4) {
		int n = (int)(size / (long)sizeof(float));
		float *send = malloc((size_t)size), *recv = malloc((size_t)size);
		for (int i = 0; i < n; i++)
			send[i] = 1, recv[i] = 0;
		for (int i = 0; i < 10; i++)
			MPI_Allreduce(send, recv, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		MPI_Barrier(MPI_COMM_WORLD);
		double start = MPI_Wtime();
		for (int i = 0; i < calls; i++)
			MPI_Allreduce(send, recv, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		double each = (MPI_Wtime() - start) / calls;
		if (rank == 0)
			printf("%ld %.2f\n", size, each * 1e6);
		free(send);
		free(recv);
	}
	MPI_Finalize();
}
