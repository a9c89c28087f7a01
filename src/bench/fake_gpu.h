/* What the stand-ins of the driver and of NCCL know of each other: a stream is a clock. What is
   enqueued is done at once and takes the time that the stand-in gives it; while a stream is
   captured, the time goes to the graph, which adds it at each launch. */
#pragma once

typedef struct {
  double us;          /* of the stream's clock */
  double captured_us; /* of the graph that is being captured */
  int capturing;
  int device;
} FakeStream;

static inline void fake_work(void* stream, double us) {
  FakeStream* clock = (FakeStream*)stream;
  if (!clock) return;
  if (clock->capturing)
    clock->captured_us += us;
  else
    clock->us += us;
}
