/* A stand-in for libcuda.so.1 in tests: FAKE_CUDA_GPUS (2) H200s whose memory is the host's, with
   links of known latency and bandwidth. Signatures are written down from the driver API's manual.
   Copies between two GPUs take 2 us + bytes / 400 GB/s where access was given, else 20 us + bytes /
   20 GB/s. With FAKE_CUDA_NO_CAPTURE no stream can be captured; with FAKE_CUDA_CORRUPT a copy of
   1 MB and more loses its last byte. With FAKE_CUDA_SM120 the GPUs say that they are of the
   capability 12.0. Functions that no test needs say "not supported". */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_gpu.h"

enum {
  SUCCESS = 0,
  INVALID_VALUE = 1,
  OUT_OF_MEMORY = 2,
  NO_DEVICE = 100,
  NOT_SUPPORTED = 801,
  CAPTURE_UNSUPPORTED = 900,
  PEER_ALREADY = 704,
  PEER_NOT_ENABLED = 705
};
enum { MOST = 16 };

typedef struct {
  int device;
  int peers[MOST];
} Context;
typedef struct {
  double us;
} Event;
typedef struct {
  double us;
} Graph;

static Context contexts[MOST];
static __thread Context* current;

static int gpus(void) {
  const char* wanted = getenv("FAKE_CUDA_GPUS");
  const int count = wanted ? atoi(wanted) : 2;
  return count > MOST ? MOST : count;
}

static int Init(unsigned flags) {
  (void)flags;
  for (int at = 0; at < MOST; ++at) contexts[at].device = at;
  return gpus() > 0 ? SUCCESS : NO_DEVICE;
}
int cuDriverGetVersion(int* version) {
  *version = 13000;
  return SUCCESS;
}
static int GetErrorName(int status, const char** name) {
  *name = status == NO_DEVICE             ? "CUDA_ERROR_NO_DEVICE"
          : status == CAPTURE_UNSUPPORTED ? "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"
                                          : "CUDA_ERROR";
  return SUCCESS;
}
static int GetErrorString(int status, const char** text) {
  (void)status;
  *text = "as the test wants";
  return SUCCESS;
}

static int DeviceGetCount(int* count) {
  *count = gpus();
  return SUCCESS;
}
static int DeviceGet(int* device, int ordinal) {
  if (ordinal < 0 || ordinal >= gpus()) return 101;
  *device = ordinal;
  return SUCCESS;
}
static int DeviceGetName(char* name, int size, int device) {
  (void)device;
  snprintf(name, (size_t)size, getenv("FAKE_CUDA_SM120") ? "NVIDIA RTX PRO 6000" : "NVIDIA H200");
  return SUCCESS;
}
static int DeviceGetUuid(unsigned char* uuid, int device) {
  memset(uuid, device + 1, 16);
  return SUCCESS;
}
static int DeviceTotalMem(size_t* bytes, int device) {
  (void)device;
  *bytes = (size_t)141 << 30;
  return SUCCESS;
}
static int DeviceGetAttribute(int* value, int attribute, int device) {
  (void)device;
  *value = attribute == 75   ? (getenv("FAKE_CUDA_SM120") ? 12 : 9)
           : attribute == 76 ? 0
           : attribute == 16 ? 132
                             : 1;
  return SUCCESS;
}
static int DeviceGetPCIBusId(char* text, int size, int device) {
  snprintf(text, (size_t)size, "0000:%02X:00.0", device + 1);
  return SUCCESS;
}
static int DeviceCanAccessPeer(int* able, int of, int in) {
  *able = of != in;
  return SUCCESS;
}
static int DeviceGetP2PAttribute(int* value, int attribute, int of, int in) {
  *value = of != in && (attribute == 2 || attribute == 3);
  return SUCCESS;
}
static int DevicePrimaryCtxRetain(Context** context, int device) {
  *context = &contexts[device];
  return SUCCESS;
}
static int DevicePrimaryCtxRelease(int device) {
  (void)device;
  return SUCCESS;
}
static int CtxSetCurrent(Context* context) {
  current = context;
  return SUCCESS;
}
static int CtxGetCurrent(Context** context) {
  *context = current;
  return SUCCESS;
}
static int CtxGetDevice(int* device) {
  *device = current ? current->device : 0;
  return current ? SUCCESS : 201;
}
static int CtxSynchronize(void) {
  return SUCCESS;
}
static int CtxEnablePeerAccess(Context* peer, unsigned flags) {
  (void)flags;
  if (!current || peer == current) return INVALID_VALUE;
  if (current->peers[peer->device]) return PEER_ALREADY;
  current->peers[peer->device] = 1;
  return SUCCESS;
}
static int CtxDisablePeerAccess(Context* peer) {
  if (!current || !current->peers[peer->device]) return PEER_NOT_ENABLED;
  current->peers[peer->device] = 0;
  return SUCCESS;
}

static int MemGetInfo(size_t* left, size_t* all) {
  *left = *all = (size_t)141 << 30;
  return SUCCESS;
}
static int MemAlloc(uint64_t* address, size_t bytes) {
  void* memory = aligned_alloc(256, (bytes + 255) / 256 * 256);
  *address = (uint64_t)(uintptr_t)memory;
  return memory ? SUCCESS : OUT_OF_MEMORY;
}
static int MemFree(uint64_t address) {
  free((void*)(uintptr_t)address);
  return SUCCESS;
}
static int MemcpyHtoD(uint64_t to, const void* from, size_t bytes) {
  memcpy((void*)(uintptr_t)to, from, bytes);
  return SUCCESS;
}
static int MemcpyDtoH(void* to, uint64_t from, size_t bytes) {
  memcpy(to, (const void*)(uintptr_t)from, bytes);
  return SUCCESS;
}
static int MemsetD8(uint64_t to, unsigned char value, size_t bytes) {
  memset((void*)(uintptr_t)to, value, bytes);
  return SUCCESS;
}

static int moved(uint64_t to, uint64_t from, size_t bytes, FakeStream* stream, double us) {
  const size_t lost = getenv("FAKE_CUDA_CORRUPT") && bytes >= (1u << 20) ? 1 : 0;
  memcpy((void*)(uintptr_t)to, (const void*)(uintptr_t)from, bytes - lost);
  fake_work(stream, us);
  return SUCCESS;
}
static int MemcpyDtoDAsync(uint64_t to, uint64_t from, size_t bytes, FakeStream* stream) {
  return moved(to, from, bytes, stream, 2 + (double)bytes / 400e3);
}
static int MemcpyPeerAsync(uint64_t to, Context* target, uint64_t from, Context* source,
                           size_t bytes, FakeStream* stream) {
  if (stream->capturing || source->peers[target->device]) return CAPTURE_UNSUPPORTED;
  return moved(to, from, bytes, stream, 20 + (double)bytes / 20e3);
}

static int StreamCreate(FakeStream** stream, unsigned flags) {
  (void)flags;
  *stream = calloc(1, sizeof **stream);
  (*stream)->device = current->device;
  return SUCCESS;
}
static int StreamDestroy(FakeStream* stream) {
  free(stream);
  return SUCCESS;
}
static int StreamSynchronize(FakeStream* stream) {
  return stream->capturing ? CAPTURE_UNSUPPORTED : SUCCESS;
}
static int StreamBeginCapture(FakeStream* stream, int mode) {
  (void)mode;
  /* The second GPU's, so that the first capture has begun and must be ended. */
  if (getenv("FAKE_CUDA_NO_CAPTURE") && stream->device == 1) return CAPTURE_UNSUPPORTED;
  if (stream->capturing) return INVALID_VALUE;
  stream->capturing = 1, stream->captured_us = 0;
  return SUCCESS;
}
static int StreamEndCapture(FakeStream* stream, Graph** graph) {
  if (!stream->capturing) return INVALID_VALUE;
  stream->capturing = 0;
  *graph = malloc(sizeof **graph);
  (*graph)->us = stream->captured_us;
  return SUCCESS;
}
static int EventCreate(Event** event, unsigned flags) {
  (void)flags;
  *event = calloc(1, sizeof **event);
  return SUCCESS;
}
static int EventDestroy(Event* event) {
  free(event);
  return SUCCESS;
}
static int EventRecord(Event* event, FakeStream* stream) {
  event->us = stream->us;
  return SUCCESS;
}
static int EventSynchronize(Event* event) {
  (void)event;
  return SUCCESS;
}
static int EventElapsedTime(float* ms, Event* begin, Event* end) {
  *ms = (float)((end->us - begin->us) * 1e-3);
  return SUCCESS;
}
static int GraphInstantiateWithFlags(Graph** exec, Graph* graph, unsigned long long flags) {
  (void)flags;
  *exec = malloc(sizeof **exec);
  **exec = *graph;
  return SUCCESS;
}
static int GraphLaunch(Graph* exec, FakeStream* stream) {
  stream->us += exec->us;
  return SUCCESS;
}
static int GraphDestroy(Graph* graph) {
  free(graph);
  return SUCCESS;
}
static int GraphExecDestroy(Graph* exec) {
  free(exec);
  return SUCCESS;
}
static int unsupported(void) {
  return NOT_SUPPORTED;
}

int cuGetProcAddress_v2(const char* name, void** function, int version, uint64_t flags,
                        int* query) {
  (void)version, (void)flags;
#define HAVE(what) \
  { "cu" #what, (void*)what }
  static const struct {
    const char* name;
    void* function;
  } known[] = {HAVE(Init),
               {"cuDriverGetVersion", (void*)cuDriverGetVersion},
               HAVE(GetErrorName),
               HAVE(GetErrorString),
               HAVE(DeviceGetCount),
               HAVE(DeviceGet),
               HAVE(DeviceGetName),
               HAVE(DeviceGetUuid),
               HAVE(DeviceTotalMem),
               HAVE(DeviceGetAttribute),
               HAVE(DeviceGetPCIBusId),
               HAVE(DeviceCanAccessPeer),
               HAVE(DeviceGetP2PAttribute),
               HAVE(DevicePrimaryCtxRetain),
               HAVE(DevicePrimaryCtxRelease),
               HAVE(CtxSetCurrent),
               HAVE(CtxGetCurrent),
               HAVE(CtxGetDevice),
               HAVE(CtxSynchronize),
               HAVE(CtxEnablePeerAccess),
               HAVE(CtxDisablePeerAccess),
               HAVE(MemGetInfo),
               HAVE(MemAlloc),
               HAVE(MemFree),
               HAVE(MemcpyHtoD),
               HAVE(MemcpyDtoH),
               HAVE(MemsetD8),
               HAVE(MemcpyDtoDAsync),
               HAVE(MemcpyPeerAsync),
               HAVE(StreamCreate),
               HAVE(StreamDestroy),
               HAVE(StreamSynchronize),
               HAVE(StreamBeginCapture),
               HAVE(StreamEndCapture),
               HAVE(EventCreate),
               HAVE(EventDestroy),
               HAVE(EventRecord),
               HAVE(EventSynchronize),
               HAVE(EventElapsedTime),
               HAVE(GraphInstantiateWithFlags),
               HAVE(GraphLaunch),
               HAVE(GraphDestroy),
               HAVE(GraphExecDestroy)};
#undef HAVE
  *query = 0;
  *function = (void*)unsupported;
  for (size_t at = 0; at < sizeof known / sizeof known[0]; ++at) {
    if (strcmp(known[at].name, name) == 0) *function = known[at].function;
  }
  return SUCCESS;
}
