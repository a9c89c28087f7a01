// A process that is forked has none of the threads of a CPU device: calls say so, and nothing waits
// for them.
#include <gtest/gtest.h>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "capi/test_gemm.h"
#include "capi/test_moe.h"

namespace nibble::capi {
namespace {

// Runs `work` in a forked process, which has 20 s, and gives the text that it returns.
template <class Work>
std::string in_child(const Work& work) {
  int ends[2] = {};
  if (::pipe(ends) != 0) return "no pipe";
  const pid_t child = ::fork();
  if (child < 0) return "no fork";
  if (child == 0) {
    ::alarm(20);
    const std::string said = work();
    const bool written =
        ::write(ends[1], said.data(), said.size()) == static_cast<ssize_t>(said.size());
    ::_exit(written ? 0 : 1);
  }
  ::close(ends[1]);
  std::string said;
  char bytes[512];
  for (ssize_t got = 0; (got = ::read(ends[0], bytes, sizeof(bytes))) > 0;) {
    said.append(bytes, static_cast<std::size_t>(got));
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return "ended by signal " + std::to_string(WTERMSIG(status));
  return WEXITSTATUS(status) == 0 ? said : "failed";
}

std::string refusal_here(pid_t parent) {
  return "the device was opened in process " + std::to_string(parent) + ", and this is " +
         std::to_string(::getpid()) + ", which has none of its threads; open one after the fork";
}

struct Product {
  std::vector<std::uint8_t> codes = std::vector<std::uint8_t>(32, 0x22);
  std::vector<std::uint8_t> scales = std::vector<std::uint8_t>(4, 0x38);
  std::vector<float> x = std::vector<float>(64, 1.0F);
  float out = 0;

  nibble_status create(nibble_device* device, nibble_cpu_gemm** gemm) const {
    auto desc = sized<nibble_fp4_gemm_desc>();
    desc.out_dtype = NIBBLE_FP32;
    desc.n = 1;
    desc.k = 64;
    auto weights = sized<nibble_cpu_gemm_weights>();
    weights.b = codes.data();
    weights.block_scale_b = scales.data();
    return nibble_cpu_gemm_create(device, &desc, &weights, gemm);
  }
  nibble_status run(const nibble_cpu_gemm* gemm) {
    auto args = sized<nibble_cpu_gemm_args>();
    args.a_dtype = NIBBLE_FP32;
    args.rows = 1;
    args.a = x.data();
    args.out = &out;
    return nibble_cpu_gemm_run(gemm, &args);
  }
};

TEST(CapiFork, CallsOnADeviceOfTheParentSayWhatToDo) {
  nibble_device* device = nullptr;
  ASSERT_CALL_OK(nibble_cpu_open(2, &device));
  Product product;
  nibble_cpu_gemm* gemm = nullptr;
  ASSERT_CALL_OK(product.create(device, &gemm));
  const MoeInput input({.tokens = 2, .experts = 2, .top_k = 1, .hidden = 64, .intermediate = 32});
  const auto desc = input.desc(NIBBLE_FP32);
  const auto tensors = input.tensors();
  nibble_moe* moe = nullptr;
  nibble_moe_workspace* workspace = nullptr;
  ASSERT_CALL_OK(nibble_moe_create(device, &desc, &tensors, &moe));
  ASSERT_CALL_OK(nibble_moe_workspace_create(moe, 2, &workspace));
  const pid_t parent = ::getpid();
  const std::string said = in_child([&]() -> std::string {
    const std::string expected = refusal_here(parent);
    nibble_cpu_gemm* another = nullptr;
    if (product.create(device, &another) != NIBBLE_INVALID_ARGUMENT) return "created";
    if (nibble_last_error() != expected) return nibble_last_error();
    if (product.run(gemm) != NIBBLE_INVALID_ARGUMENT) return "run";
    if (nibble_last_error() != expected) return nibble_last_error();
    nibble_moe* layer = nullptr;
    if (nibble_moe_create(device, &desc, &tensors, &layer) != NIBBLE_INVALID_ARGUMENT) {
      return "created a layer";
    }
    if (nibble_last_error() != expected) return nibble_last_error();
    std::vector<float> y(128);
    auto args = sized<nibble_moe_args>();
    args.tokens = 2;
    args.hidden_states = input.x.data();
    args.topk_ids = input.ids.data();
    args.topk_weights = input.weights.data();
    args.out = y.data();
    if (nibble_moe_run(moe, workspace, &args, nullptr) != NIBBLE_INVALID_ARGUMENT) return "ran";
    if (nibble_last_error() != expected) return nibble_last_error();
    // One of its own works beside it, and ending the parent's waits for nobody.
    nibble_device* own = nullptr;
    if (nibble_cpu_open(2, &own) != NIBBLE_OK) return nibble_last_error();
    if (product.create(own, &another) != NIBBLE_OK) return nibble_last_error();
    if (product.run(another) != NIBBLE_OK || product.out != 64) return "no product";
    nibble_cpu_gemm_destroy(another);
    nibble_device_close(own);
    nibble_cpu_gemm_destroy(gemm);
    nibble_moe_workspace_destroy(workspace);
    nibble_moe_destroy(moe);
    nibble_device_close(device);
    return "as expected";
  });
  EXPECT_EQ(said, "as expected");
  EXPECT_CALL_OK(product.run(gemm));  // the parent's are as they were
  EXPECT_EQ(product.out, 64);
  nibble_moe_workspace_destroy(workspace);
  nibble_moe_destroy(moe);
  nibble_cpu_gemm_destroy(gemm);
  nibble_device_close(device);
}

// In a process of its own, whose limits stay there.
TEST(CapiThreads, MoreThanTheSystemGivesAreAnError) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "AddressSanitizer reserves more memory than the limit of this test";
#endif
  const std::string said = in_child([]() -> std::string {
    const rlimit limit{.rlim_cur = rlim_t{2} << 30, .rlim_max = rlim_t{2} << 30};
    if (::setrlimit(RLIMIT_AS, &limit) != 0) return "no limit";
    // Stacks of 8 MB: 1,024 are 8 GB of addresses.
    nibble_device* device = nullptr;
    const nibble_status status = nibble_cpu_open(1024, &device);
    if (status != NIBBLE_RUN_FAILED || device != nullptr) return "opened";
    const std::string sentence = nibble_last_error();
    if (nibble_cpu_open(2, &device) != NIBBLE_OK) return nibble_last_error();
    Product product;
    nibble_cpu_gemm* gemm = nullptr;
    if (product.create(device, &gemm) != NIBBLE_OK) return nibble_last_error();
    if (product.run(gemm) != NIBBLE_OK || product.out != 64) return "no product";
    nibble_cpu_gemm_destroy(gemm);
    nibble_device_close(device);
    return sentence;
  });
  EXPECT_EQ(said.rfind("1024 threads of the CPU do not start (", 0), 0U) << said;
  EXPECT_NE(
      said.find("); ask nibble_cpu_open() for fewer, or raise this process's limits on threads "
                "and memory"),
      std::string::npos)
      << said;
}

}  // namespace
}  // namespace nibble::capi
