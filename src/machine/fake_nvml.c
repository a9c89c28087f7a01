/* A stand-in for libnvidia-ml.so.1 in tests: two GPUs, of which the first can do all that a Hopper
   can and the second lacks instant power and GPM. Its types are written down from NVIDIA's Python
   bindings (nvidia-ml-py), not taken from nvml_abi.h, so that the two can disagree. A test opens it
   a second time and sets fake_nvml_state to say what the next readings are. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
  uint32_t fieldId, scopeId;
  int64_t timestamp, latencyUsec;
  int valueType, nvmlReturn;
  union {
    double dVal;
    unsigned uiVal;
    unsigned long ulVal;
    unsigned long long ullVal;
    long long sllVal;
    int siVal;
    unsigned short usVal;
  } value;
} FieldValue;
typedef struct {
  unsigned metricId;
  int nvmlReturn;
  double value;
  struct {
    const char *shortName, *longName, *unit;
  } metricInfo;
} GpmMetric;
enum { GPM_METRIC_MAX = 477 };
typedef struct {
  unsigned version, numMetrics;
  void *sample1, *sample2;
  GpmMetric metrics[GPM_METRIC_MAX];
} GpmMetricsGet;

enum { NOT_SUPPORTED = 3, INVALID_ARGUMENT = 2, GPU_IS_LOST = 15 };
static int gpus[2]; /* their addresses are the handles */
static struct {
  double power_mw, power_type, energy_mj, gpm, hang_ms, fail, numbering, tensor, open_samples,
      devices;
} state;

static int is_second(void* device) {
  return device == &gpus[1];
}
static int begin(void) {
  if (state.hang_ms > 0) usleep((unsigned)(state.hang_ms * 1000));
  return (int)state.fail;
}

void fake_nvml_reset(void) {
  memset(&state, 0, sizeof state);
  state.power_mw = 445000;
  state.power_type = 1;
  state.gpm = 1;
  state.numbering = 269;
  state.tensor = 92;
  state.devices = 2;
}
double* fake_nvml_state(const char* name) {
  if (!strcmp(name, "power_mw")) return &state.power_mw;
  if (!strcmp(name, "power_type")) return &state.power_type;
  if (!strcmp(name, "energy_mj")) return &state.energy_mj;
  if (!strcmp(name, "gpm")) return &state.gpm;
  if (!strcmp(name, "hang_ms")) return &state.hang_ms;
  if (!strcmp(name, "fail")) return &state.fail;
  if (!strcmp(name, "numbering")) return &state.numbering;
  if (!strcmp(name, "tensor")) return &state.tensor;
  if (!strcmp(name, "devices")) return &state.devices;
  if (!strcmp(name, "open_samples")) return &state.open_samples;
  return NULL;
}

int nvmlInit_v2(void) {
  if (state.power_mw == 0) fake_nvml_reset();
  return 0;
}
int nvmlShutdown(void) {
  return 0;
}
const char* nvmlErrorString(int code) {
  return code == NOT_SUPPORTED ? "Not Supported" : code == GPU_IS_LOST ? "GPU is lost" : "Error";
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = (unsigned)state.devices;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index > 1) return INVALID_ARGUMENT;
  *device = &gpus[index];
  return 0;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* place, void** device) {
  if (strcmp(place, "0000:1b:00.0") && strcmp(place, "0000:43:00.0")) return INVALID_ARGUMENT;
  *device = &gpus[!strcmp(place, "0000:43:00.0")];
  return 0;
}
int nvmlDeviceGetIndex(void* device, unsigned* index) {
  *index = (unsigned)is_second(device);
  return 0;
}
int nvmlDeviceGetName(void* device, char* name, unsigned length) {
  strncpy(name, is_second(device) ? "NVIDIA Old" : "NVIDIA H200", length);
  return 0;
}

static int field(void* device, FieldValue* f) {
  f->valueType = 3;
  switch (f->fieldId) {
    case 74: /* ns */
      f->value.ullVal = 1202176000ULL;
      return 0;
    case 75:
    case 76:
    case 77:
    case 79:
      f->value.ullVal = 0;
      return 0;
    case 251:
    case 252:
    case 253:
    case 269:
    case 270:
    case 271: {
      unsigned base = (unsigned)state.numbering;
      if (base != 0 && (f->fieldId < base || f->fieldId > base + 2)) return NOT_SUPPORTED;
      f->value.ullVal = f->fieldId * 1000000ULL;
      return 0;
    }
    case 138:
      f->value.ullVal = f->scopeId == UINT32_MAX ? 2048 : 1024; /* KiB */
      return 0;
    case 185:
    case 186:
      if (f->fieldId == 186 && is_second(device)) return NOT_SUPPORTED;
      f->valueType = (int)state.power_type;
      memset(&f->value, 0xff, sizeof f->value); /* only the member of its type is meaningful */
      if (f->valueType == 0) f->value.dVal = state.power_mw;
      if (f->valueType == 1) f->value.uiVal = (unsigned)state.power_mw;
      if (f->valueType == 2) f->value.ulVal = (unsigned long)state.power_mw;
      if (f->valueType == 3) f->value.ullVal = (unsigned long long)state.power_mw;
      if (f->valueType == 4) f->value.sllVal = (long long)state.power_mw;
      if (f->valueType == 5) f->value.siVal = (int)state.power_mw;
      if (f->valueType == 6) f->value.usVal = 4321;
      return 0;
    default:
      return NOT_SUPPORTED;
  }
}
int nvmlDeviceGetFieldValues(void* device, int count, FieldValue* values) {
  int failed = begin();
  if (failed) return failed;
  for (int i = 0; i < count; ++i) values[i].nvmlReturn = field(device, &values[i]);
  return 0;
}
int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* mj) {
  int failed = begin();
  (void)device;
  *mj = (unsigned long long)state.energy_mj;
  return failed;
}
int nvmlDeviceGetPowerUsage(void* device, unsigned* mw) {
  (void)device;
  *mw = 99000;
  return begin();
}
int nvmlDeviceGetEnforcedPowerLimit(void* device, unsigned* mw) {
  (void)device;
  *mw = 700000;
  return begin();
}
int nvmlDeviceGetClockInfo(void* device, int clock, unsigned* mhz) {
  (void)device;
  *mhz = clock == 1 ? 1980 : clock == 2 ? 3201 : 0;
  return begin();
}
int nvmlDeviceGetTemperature(void* device, int sensor, unsigned* celsius) {
  (void)device;
  *celsius = sensor == 0 ? 61 : 0;
  return begin();
}
int nvmlDeviceGetUtilizationRates(void* device, unsigned* gpu_then_memory) {
  (void)device;
  gpu_then_memory[0] = 97;
  gpu_then_memory[1] = 35;
  return begin();
}
/* Only under its old name, as before driver 535. */
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* mask) {
  (void)device;
  *mask = 0x4;
  return begin();
}
int nvmlDeviceGetMemoryInfo(void* device, unsigned long long* total_free_used) {
  (void)device;
  total_free_used[0] = 150ULL << 30;
  total_free_used[1] = 100ULL << 30;
  total_free_used[2] = 50ULL << 30;
  return begin();
}
int nvmlDeviceGetCurrPcieLinkGeneration(void* device, unsigned* generation) {
  (void)device;
  *generation = 5;
  return begin();
}
int nvmlDeviceGetCurrPcieLinkWidth(void* device, unsigned* width) {
  (void)device;
  *width = 16;
  return begin();
}
/* Limits: other numbers than what is now, so that one cannot pass for the other. */
int nvmlDeviceGetMaxPcieLinkGeneration(void* device, unsigned* generation) {
  (void)device;
  *generation = 6;
  return begin();
}
int nvmlDeviceGetMaxPcieLinkWidth(void* device, unsigned* width) {
  (void)device;
  *width = 32;
  return begin();
}
int nvmlDeviceGetMaxClockInfo(void* device, int clock, unsigned* mhz) {
  (void)device;
  *mhz = clock == 1 ? 2010 : clock == 2 ? 3210 : 0;
  return begin();
}
int nvmlDeviceGetTemperatureThreshold(void* device, int threshold, unsigned* celsius) {
  if (is_second(device)) return NOT_SUPPORTED;
  *celsius = threshold == 0 ? 92 : threshold == 1 ? 87 : 0; /* shutdown, slowdown */
  return begin();
}
int nvmlDeviceGetPcieThroughput(void* device, int direction, unsigned* kb_s) {
  (void)device;
  *kb_s = direction == 0 ? 1500 : 2500;
  return begin();
}

int nvmlGpmQueryDeviceSupport(void* device, unsigned* version_then_supported) {
  if (version_then_supported[0] != 1) return INVALID_ARGUMENT;
  version_then_supported[1] = state.gpm != 0 && !is_second(device);
  return 0;
}
int nvmlGpmSampleAlloc(void** sample) {
  *sample = malloc(1);
  state.open_samples += 1;
  return 0;
}
int nvmlGpmSampleFree(void* sample) {
  free(sample);
  state.open_samples -= 1;
  return 0;
}
int nvmlGpmSampleGet(void* device, void* sample) {
  (void)device;
  *(char*)sample = 1;
  return begin();
}
int nvmlGpmMetricsGet(GpmMetricsGet* get) {
  if (get->version != 1 || get->sample1 == get->sample2 || !get->sample1) return INVALID_ARGUMENT;
  if (*(char*)get->sample1 != 1 || *(char*)get->sample2 != 1) return INVALID_ARGUMENT;
  for (unsigned i = 0; i < get->numMetrics; ++i) {
    GpmMetric* metric = &get->metrics[i];
    metric->nvmlReturn = 0;
    switch (metric->metricId) {
      case 2:
        metric->value = 99;
        break;
      case 5:
        metric->value = state.tensor;
        break;
      case 10:
        metric->value = 20;
        break;
      case 11: /* a division by nothing, as for two samples that are too near */
        metric->value = 0.0 / 0.0;
        break;
      default:
        metric->nvmlReturn = NOT_SUPPORTED;
    }
  }
  /* The library may touch every slot that its own header counts. */
  for (unsigned i = get->numMetrics; i < GPM_METRIC_MAX; ++i) get->metrics[i].nvmlReturn = 0;
  return begin();
}
