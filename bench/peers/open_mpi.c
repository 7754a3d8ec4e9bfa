// One collective of Open MPI, timed: open_mpi OPERATION BYTES REPEATS, under mpirun. Prints one line of JSON: seconds of each
// repeat (from a barrier until every rank is done), and CPU seconds of all ranks together for one repeat.
// OPERATION: broadcast, allreduce, broadcast-many (BYTES in pieces of 64 KiB, one after another).
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { PIECE_BYTES = 64 * 1024, REPEATS_MAX = 64 };

static double cpu_seconds(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) + (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void operate(const char* operation, float* from, float* to, size_t bytes) {
  const int count = (int)(bytes / sizeof(float));
  if (strcmp(operation, "allreduce") == 0) {
    MPI_Allreduce(from, to, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  } else if (strcmp(operation, "broadcast") == 0) {
    MPI_Bcast(from, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
  } else {
    for (size_t at = 0; at < bytes; at += PIECE_BYTES)
      MPI_Bcast((char*)from + at, PIECE_BYTES, MPI_BYTE, 0, MPI_COMM_WORLD);
  }
}

int main(int count, char** words) {
  MPI_Init(&count, &words);
  if (count != 4) MPI_Abort(MPI_COMM_WORLD, 2);
  const char* operation = words[1];
  const size_t bytes = (size_t)atoll(words[2]);
  const int wanted = atoi(words[3]);
  const int repeats = wanted < REPEATS_MAX ? wanted : REPEATS_MAX;
  float* from = malloc(bytes);
  float* to = malloc(bytes);
  if (from == NULL || to == NULL) MPI_Abort(MPI_COMM_WORLD, 3);
  memset(from, 1, bytes);
  memset(to, 1, bytes);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  operate(operation, from, to, bytes);  // warms up
  double seconds[REPEATS_MAX];
  const double cpu_before = cpu_seconds();
  for (int i = 0; i < repeats; i++) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double started = MPI_Wtime();
    operate(operation, from, to, bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    seconds[i] = MPI_Wtime() - started;
  }
  const double cpu = cpu_seconds() - cpu_before;
  double cpu_sum = 0;
  MPI_Reduce(&cpu, &cpu_sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    printf("{\"seconds\":[");
    for (int i = 0; i < repeats; i++) printf("%s%.6f", i > 0 ? "," : "", seconds[i]);
    printf("],\"cpuSeconds\":%.6f}\n", cpu_sum / repeats);
  }
  MPI_Finalize();
  return 0;
}
