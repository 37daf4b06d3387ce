#!/bin/bash
# Trains by Open MPI's mpirun, with eight ranks on this host, or on those that HOSTS names, the first of
# which has rank 0:
#
#   MODEL=/models/Qwen3-8B DATA=/data/train.jsonl OUTPUT=/output HOSTS=a:8,b:8 examples/deploy/trainstep-mpirun.sh
#
# Ranks take their numbers from OMPI_COMM_WORLD_RANK and their devices from OMPI_COMM_WORLD_LOCAL_RANK. On
# one host their rendezvous is on the loopback, at a port derived from mpirun's name of the job; for several hosts
# mpirun must pass on the variables that the ranks need. Without --bind-to none it would give each rank one core.
set -eu

: "${CANN_JOB_SECRET:=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')}"
export CANN_JOB_SECRET

hosts=()
if [[ -n ${HOSTS:-} ]]; then
	hosts=(--host "$HOSTS" -x "MASTER_ADDR=${HOSTS%%[:,]*}" -x "MASTER_PORT=${MASTER_PORT:-29500}")
else
	hosts=(-n 8)
fi
# SIGTERM to mpirun lets the ranks finish a step and save it.
exec mpirun "${hosts[@]}" --bind-to none --oversubscribe -x CANN_JOB_SECRET \
	"${TRAINSTEP:-build/trainstep}" -model "$MODEL" -data "$DATA" -tp 2 -pp 2 -micro 2 \
	-steps "${STEPS:-10000}" -save "$OUTPUT" -save-every 500 -auto-resume -log "$OUTPUT/run.jsonl"
