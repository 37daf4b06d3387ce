/* The end of a computation type. */
#undef RUN
#undef VL
#undef NR
#undef GROUP
#undef P
#undef PV
#undef MULADD
#undef MULADD_EXCESS
#undef T
#undef V
#undef NAME
