/* A stand-in for the CUDA driver, opened as that is: memory of the host instead of a GPU's, kernels
 * that do nothing but are noted down, and errors on demand. fake_driver_test.cpp asks it by the
 * functions at the end. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { kInvalidValue = 1, kOutOfMemory = 2, kNotFound = 500, kIllegalAddress = 700 };

static int live;   /* objects made and not destroyed */
static int sticky; /* error of every later call, as after an illegal access */
static _Thread_local void* current;
static char contexts[2];
static int retained;
static int nodes_captured;

typedef struct {
  unsigned numbers[7]; /* grid, block, shared bytes */
  void* stream;
  struct {
    unsigned id;
    unsigned pad;
    unsigned value[16];
  } * attributes;
  unsigned attribute_count;
} Config;
static struct {
  char kernel[64];
  unsigned numbers[7];
  unsigned programmatic;
  unsigned cluster;
  int first_parameter;
  int count;
} last;

typedef struct {
  char name[64];
  int max_dynamic;
} Function;
static Function functions[8];
static int function_count;

static int init(unsigned flags) {
  return flags == 0 ? 0 : kInvalidValue;
}
static int version(int* v) {
  *v = 12080;
  return 0;
}
static int error_name(int code, const char** name) {
  *name = code == kInvalidValue     ? "CUDA_ERROR_INVALID_VALUE"
          : code == kOutOfMemory    ? "CUDA_ERROR_OUT_OF_MEMORY"
          : code == kNotFound       ? "CUDA_ERROR_NOT_FOUND"
          : code == kIllegalAddress ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                                    : NULL;
  return *name != NULL ? 0 : kInvalidValue;
}
static int error_string(int code, const char** text) {
  *text = code == kIllegalAddress ? "an illegal memory access was encountered" : "fake words";
  return 0;
}
static int device_count(int* count) {
  *count = 2;
  return 0;
}
static int device_get(int* device, int ordinal) {
  *device = ordinal + 10;
  return 0;
}
static int device_name(char* name, int size, int device) {
  (void)device;
  strncpy(name, "Fake GPU", (size_t)size);
  return 0;
}
static int device_uuid(unsigned char* uuid, int device) {
  for (int i = 0; i < 16; ++i) uuid[i] = (unsigned char)(16 * i + device - 10);
  return 0;
}
static int device_memory(size_t* bytes, int device) {
  (void)device;
  *bytes = 1 << 20;
  return 0;
}
static int device_attribute(int* value, int number, int device) {
  (void)device;
  *value = number == 75 ? 9 : number == 76 ? 0 : number == 97 ? 232448 : 1000 + number;
  return 0;
}
static int device_pci(char* text, int size, int device) {
  (void)device;
  strncpy(text, "0000:3B:00.0", (size_t)size);
  return 0;
}
static int retain(void** context, int device) {
  *context = &contexts[device - 10];
  ++retained;
  return 0;
}
static int release(int device) {
  (void)device;
  --retained;
  return 0;
}
static int set_current(void* context) {
  current = context;
  return 0;
}
static int get_current(void** context) {
  *context = current;
  return 0;
}
static int context_synchronize(void) {
  return sticky;
}
static int memory_info(size_t* available, size_t* total) {
  *available = 1 << 19;
  *total = 1 << 20;
  return sticky;
}
static int allocate(unsigned long long* address, size_t bytes) {
  if (sticky) return sticky;
  if (bytes > 1 << 20) return kOutOfMemory;
  *address = (unsigned long long)(size_t)malloc(bytes);
  ++live;
  return 0;
}
/* Only in the context that it was made in, which the owner has to make current. */
static int destroyed(void) {
  if (current == NULL) return 201;
  --live;
  return 0;
}
static int deallocate(unsigned long long address) {
  free((void*)(size_t)address);
  return destroyed();
}
static int host_allocate(void** memory, size_t bytes, unsigned flags) {
  (void)flags;
  if (sticky) return sticky;
  *memory = malloc(bytes);
  ++live;
  return 0;
}
static int host_free(void* memory) {
  free(memory);
  return destroyed();
}
static int to_device(unsigned long long to, const void* from, size_t bytes) {
  memcpy((void*)(size_t)to, from, bytes);
  return sticky;
}
static int to_host(void* to, unsigned long long from, size_t bytes) {
  memcpy(to, (const void*)(size_t)from, bytes);
  return sticky;
}
static int to_device_async(unsigned long long to, const void* from, size_t bytes, void* s) {
  (void)s;
  return to_device(to, from, bytes);
}
static int to_host_async(void* to, unsigned long long from, size_t bytes, void* s) {
  (void)s;
  return to_host(to, from, bytes);
}
static int in_device_async(unsigned long long to, unsigned long long from, size_t bytes, void* s) {
  (void)s;
  return to_host((void*)(size_t)to, from, bytes);
}
static int fill(unsigned long long to, unsigned char value, size_t count) {
  memset((void*)(size_t)to, value, count);
  return sticky;
}
static int fill_async(unsigned long long to, unsigned char value, size_t count, void* s) {
  (void)s;
  return fill(to, value, count);
}
static int make(void** handle, unsigned flags) {
  (void)flags;
  if (sticky) return sticky;
  *handle = malloc(8);
  ++live;
  return 0;
}
static int destroy(void* handle) {
  free(handle);
  return destroyed();
}
static int wait_for(void* handle) {
  (void)handle;
  return sticky;
}
static int wait_event(void* stream, void* event, unsigned flags) {
  (void)stream;
  (void)event;
  (void)flags;
  return sticky;
}
static int begin_capture(void* stream, int mode) {
  (void)stream;
  nodes_captured = 0;
  return mode == 1 ? sticky : kInvalidValue;
}
static int end_capture(void* stream, void** graph) {
  (void)stream;
  return make(graph, 0);
}
static int record(void* event, void* stream) {
  (void)event;
  (void)stream;
  return sticky;
}
static int record_flags(void* event, void* stream, unsigned flags) {
  return flags == 1 ? record(event, stream) : kInvalidValue;
}
static int elapsed(float* ms, void* a, void* b) {
  (void)a;
  (void)b;
  *ms = 1.5F;
  return sticky;
}
static int instantiate(void** exec, void* graph, unsigned long long flags) {
  (void)graph;
  return make(exec, (unsigned)flags);
}
static int graph_nodes(void* graph, void** nodes, size_t* count) {
  (void)graph;
  (void)nodes;
  *count = (size_t)nodes_captured;
  return 0;
}
static int use_graph(void* exec, void* stream) {
  (void)exec;
  (void)stream;
  return sticky;
}
static int module_load(void** module, const void* image) {
  return memcmp(image, "\177ELF", 4) == 0 ? make(module, 0) : 200;
}
/* PTX: "bogus" in it is an error, which the log tells. */
static int module_load_ex(void** module, const void* image, unsigned count, const int* options,
                          void** values) {
  if (count != 2 || options[0] != 5 || options[1] != 6) return kInvalidValue;
  if (strncmp(image, ".version", 8) != 0) return 200;
  if (strstr(image, "bogus") == NULL) return make(module, 0);
  strncpy(values[0], "ptxas input, line 5; fatal   : bogus\n", (size_t)values[1]);
  return 218;
}
static int module_function(Function** function, void* module, const char* name) {
  (void)module;
  *function = &functions[function_count++ % 8];
  strncpy((*function)->name, name, sizeof((*function)->name) - 1);
  (*function)->max_dynamic = 48 << 10;
  return 0;
}
static int function_attribute(int* value, int number, Function* function) {
  const int local = strcmp(function->name, "stacked") == 0 ? 24 : 0;
  const int values[] = {256, 400, 0, local, 32, 80, 90};
  *value = number >= 0 && number < 7 ? values[number] : 0;
  return 0;
}
static int set_attribute(Function* function, int number, int value) {
  if (number != 8) return kInvalidValue;
  function->max_dynamic = value;
  return 0;
}
static int occupancy(int* blocks, Function* function, int threads, size_t shared) {
  (void)function;
  *blocks = 2048 / threads - (shared > 0);
  return 0;
}
static int launch(const Config* config, Function* function, void** parameters, void** extra) {
  if (sticky) return sticky;
  if (extra != NULL || (int)config->numbers[6] > function->max_dynamic) return kInvalidValue;
  if (strcmp(function->name, "refused") == 0) return kInvalidValue;
  if (strcmp(function->name, "astray") == 0) sticky = kIllegalAddress;
  memset(&last, 0, offsetof(__typeof__(last), count));
  memcpy(last.kernel, function->name, sizeof(last.kernel));
  memcpy(last.numbers, config->numbers, sizeof(last.numbers));
  for (unsigned i = 0; i < config->attribute_count; ++i) {
    if (config->attributes[i].id == 6) last.programmatic = config->attributes[i].value[0];
    if (config->attributes[i].id == 4) last.cluster = config->attributes[i].value[0];
  }
  if (parameters[0] != NULL) memcpy(&last.first_parameter, parameters[0], sizeof(int));
  ++last.count;
  ++nodes_captured;
  return 0;
}

static int unsupported(void) {
  return 801;
}

static const struct {
  const char* name;
  void* function;
} table[] = {
    {"cuInit", init},
    {"cuDriverGetVersion", version},
    {"cuGetErrorName", error_name},
    {"cuGetErrorString", error_string},
    {"cuDeviceGetCount", device_count},
    {"cuDeviceGet", device_get},
    {"cuDeviceGetName", device_name},
    {"cuDeviceGetUuid", device_uuid},
    {"cuDeviceTotalMem", device_memory},
    {"cuDeviceGetAttribute", device_attribute},
    {"cuDeviceGetPCIBusId", device_pci},
    {"cuDevicePrimaryCtxRetain", retain},
    {"cuDevicePrimaryCtxRelease", release},
    {"cuCtxSetCurrent", set_current},
    {"cuCtxGetCurrent", get_current},
    {"cuCtxSynchronize", context_synchronize},
    {"cuMemGetInfo", memory_info},
    {"cuMemAlloc", allocate},
    {"cuMemFree", deallocate},
    {"cuMemHostAlloc", host_allocate},
    {"cuMemFreeHost", host_free},
    {"cuMemcpyHtoD", to_device},
    {"cuMemcpyDtoH", to_host},
    {"cuMemcpyHtoDAsync", to_device_async},
    {"cuMemcpyDtoHAsync", to_host_async},
    {"cuMemcpyDtoDAsync", in_device_async},
    {"cuMemsetD8", fill},
    {"cuMemsetD8Async", fill_async},
    {"cuStreamCreate", make},
    {"cuStreamDestroy", destroy},
    {"cuStreamSynchronize", wait_for},
    {"cuStreamWaitEvent", wait_event},
    {"cuStreamBeginCapture", begin_capture},
    {"cuStreamEndCapture", end_capture},
    {"cuEventCreate", make},
    {"cuEventDestroy", destroy},
    {"cuEventRecord", record},
    {"cuEventRecordWithFlags", record_flags},
    {"cuEventSynchronize", wait_for},
    {"cuEventElapsedTime", elapsed},
    {"cuGraphInstantiateWithFlags", instantiate},
    {"cuGraphGetNodes", graph_nodes},
    {"cuGraphUpload", use_graph},
    {"cuGraphLaunch", use_graph},
    {"cuGraphDestroy", destroy},
    {"cuGraphExecDestroy", destroy},
    {"cuModuleLoadData", module_load},
    {"cuModuleLoadDataEx", module_load_ex},
    {"cuModuleUnload", destroy},
    {"cuModuleGetFunction", module_function},
    {"cuFuncGetAttribute", function_attribute},
    {"cuFuncSetAttribute", set_attribute},
    {"cuOccupancyMaxActiveBlocksPerMultiprocessor", occupancy},
    {"cuLaunchKernelEx", launch},
};

/* What libcuda.so.1 exports, as far as it is looked up by name. */
int cuDriverGetVersion(int* v);
int cuDriverGetVersion(int* v) {
  return version(v);
}
int cuGetProcAddress_v2(const char* name, void** function, int wanted, unsigned long long flags,
                        int* query);
int cuGetProcAddress_v2(const char* name, void** function, int wanted, unsigned long long flags,
                        int* query) {
  *function = NULL;
  *query = 1;
  if (flags != 0 || wanted > 12080) return kNotFound;
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); ++i) {
    if (strcmp(table[i].name, name) == 0) *function = table[i].function;
  }
  /* A real driver of this version has them all; those that no test calls say so when called. */
  if (*function == NULL) *function = unsupported;
  *query = 0;
  return 0;
}

/* For the tests. */
int fake_live(void);
int fake_live(void) {
  return live;
}
int fake_retained(void);
int fake_retained(void) {
  return retained;
}
void fake_recover(void);
void fake_recover(void) {
  sticky = 0;
}
const void* fake_last(void);
const void* fake_last(void) {
  return &last;
}
