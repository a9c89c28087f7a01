/* A stand-in for libnccl.so.2 in tests: ranks of one process, whose "device memory" is the host's.
   Written down from NCCL's user guide, not from nccl_abi.h, so that the two can disagree. Work is
   queued until the outermost group ends, as there, and done then; work outside a group is refused,
   since one thread with several ranks would wait for ever. Values are bf16. A collective takes 9 us
   and bytes / 320 GB/s of the buffer that its size is told by. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fake_gpu.h"

enum { SUCCESS = 0, INTERNAL_ERROR = 3, INVALID_ARGUMENT = 4, INVALID_USAGE = 5 };
enum { BFLOAT16 = 9, SUM = 0, MOST_RANKS = 16, MOST_WORK = 1024 };

typedef struct {
  int rank, ranks, device;
} Comm;
typedef enum { ALL_REDUCE, ALL_GATHER, SEND, RECV } Kind;
typedef struct {
  Kind kind;
  Comm* comm;
  const uint16_t* from;
  uint16_t* to;
  size_t count;
  int peer, done;
  void* stream;
} Work;

static Work queue[MOST_WORK];
static int queued, depth;
int fake_nccl_comms; /* that exist */

int ncclGetVersion(int* version) {
  *version = 22809;
  return SUCCESS;
}
const char* ncclGetErrorString(int status) {
  return status == INVALID_USAGE ? "invalid usage" : "an error";
}

int ncclCommInitAll(void** comms, int count, const int* devices) {
  if (count < 1 || count > MOST_RANKS || devices[0] == 99) return INVALID_ARGUMENT;
  for (int at = 0; at < count; ++at) {
    Comm* comm = malloc(sizeof(Comm));
    comm->rank = at, comm->ranks = count, comm->device = devices[at];
    comms[at] = comm;
    ++fake_nccl_comms;
  }
  return SUCCESS;
}
int ncclCommDestroy(void* comm) {
  free(comm);
  --fake_nccl_comms;
  return SUCCESS;
}
int ncclCommAbort(void* comm) {
  return ncclCommDestroy(comm);
}
int ncclCommGetAsyncError(void* comm, int* status) {
  *status = comm ? SUCCESS : INTERNAL_ERROR;
  return SUCCESS;
}

static int add(Work work) {
  if (depth == 0 || queued == MOST_WORK) return INVALID_USAGE;
  queue[queued++] = work;
  return SUCCESS;
}
int ncclAllReduce(const void* from, void* to, size_t count, int type, int op, void* comm,
                  void* stream) {
  if (type != BFLOAT16 || op != SUM) return INVALID_ARGUMENT;
  return add((Work){ALL_REDUCE, comm, from, to, count, 0, 0, stream});
}
int ncclAllGather(const void* from, void* to, size_t count, int type, void* comm, void* stream) {
  if (type != BFLOAT16) return INVALID_ARGUMENT;
  return add((Work){ALL_GATHER, comm, from, to, count, 0, 0, stream});
}
int ncclSend(const void* from, size_t count, int type, int peer, void* comm, void* stream) {
  if (type != BFLOAT16) return INVALID_ARGUMENT;
  return add((Work){SEND, comm, from, 0, count, peer, 0, stream});
}
int ncclRecv(void* to, size_t count, int type, int peer, void* comm, void* stream) {
  if (type != BFLOAT16) return INVALID_ARGUMENT;
  return add((Work){RECV, comm, 0, to, count, peer, 0, stream});
}
int ncclGroupStart(void) {
  ++depth;
  return SUCCESS;
}

static float widened(uint16_t value) {
  uint32_t bits = (uint32_t)value << 16;
  float number;
  memcpy(&number, &bits, sizeof number);
  return number;
}
static uint16_t narrowed(float number) {
  uint32_t bits;
  memcpy(&bits, &number, sizeof bits);
  return (uint16_t)(bits >> 16); /* tests sum what bf16 holds exactly */
}

/* The peer's half of a collective: the work of the same kind and size that rank `peer` queued. */
static Work* find(Kind kind, int rank, size_t count, int peer) {
  for (int at = 0; at < queued; ++at) {
    Work* work = &queue[at];
    const int meant = kind == SEND ? work->peer == peer && !work->done : 1;
    if (work->kind == kind && work->comm->rank == rank && work->count == count && meant)
      return work;
  }
  return 0;
}

static int finish(Work* work) {
  const int ranks = work->comm->ranks;
  const double ranks_of_buffer = work->kind == ALL_REDUCE ? 1 : ranks;
  const double us = 9 + (double)work->count * 2 * ranks_of_buffer / 320e3;
  if (work->kind == SEND) return SUCCESS; /* its receiver takes it, and the time */
  /* Of an all-to-all the part from the rank itself stands for all. */
  if (work->kind != RECV || work->peer == work->comm->rank) fake_work(work->stream, us);
  if (work->kind == RECV) {
    Work* sent = find(SEND, work->peer, work->count, work->comm->rank);
    if (!sent) return INTERNAL_ERROR;
    sent->done = 1;
    memcpy(work->to, sent->from, work->count * sizeof(uint16_t));
    return SUCCESS;
  }
  for (int rank = 0; rank < ranks; ++rank) {
    const Work* other = find(work->kind, rank, work->count, 0);
    if (!other) return INTERNAL_ERROR;
    if (work->kind == ALL_GATHER) {
      memcpy(work->to + (size_t)rank * work->count, other->from, work->count * sizeof(uint16_t));
    } else {
      for (size_t at = 0; at < work->count; ++at) {
        const float so_far = rank == 0 ? 0 : widened(work->to[at]);
        work->to[at] = narrowed(so_far + widened(other->from[at]));
      }
    }
  }
  return SUCCESS;
}

int ncclGroupEnd(void) {
  if (depth == 0) return INVALID_USAGE;
  if (--depth > 0) return SUCCESS;
  int status = SUCCESS;
  for (int at = 0; at < queued && status == SUCCESS; ++at) status = finish(&queue[at]);
  for (int at = 0; at < queued && status == SUCCESS; ++at) {
    if (queue[at].kind == SEND && !queue[at].done) status = INTERNAL_ERROR;
  }
  queued = 0;
  return status;
}
