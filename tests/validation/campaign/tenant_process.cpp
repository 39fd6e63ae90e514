// SPDX-License-Identifier: Apache-2.0
#include "tests/validation/campaign/tenant_process.hpp"

#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "host_driver/discovery/attach.hpp"
#include "tests/validation/bounds.hpp"
#include "tests/validation/campaign/card_fixture.hpp"
#include "tests/validation/campaign/test_stream.hpp"

namespace svp::campaign {

namespace {

using std::chrono::nanoseconds;
using wire::ControlBlock;
using wire::Outcome;

constexpr const char* kCommand = "fault-tenant";
constexpr auto kBound = campaign_bounds::kBlock;
constexpr auto kLongestOccupation = campaign_bounds::kOccupation;
constexpr int kNotAsItShouldBe = 3;

}  // namespace

TenantProcess::TenantProcess(const std::string& card, const std::string& function, TenantTask task, std::uint64_t seed)
    : process_("/proc/self/exe", {"spyre", kCommand, card, function, task == TenantTask::Work ? "work" : "occupy",
                                  std::to_string(seed)}) {}

bool TenantProcess::wait_working(nanoseconds bound) { return process_.read_line(bound) == "working"; }

// ---- inside the process ---------------------------------------------------------------------------------------------

namespace {

std::string job(BlockBuilder& builder, TestStream& stream, std::mt19937_64& random) {
  constexpr std::uint64_t kBytes = 64 * wire::kKiB, kBack = 1 * wire::kMiB;
  const auto out = builder.host_words(0, kBytes);
  for (auto& word : out) word = random();
  const ControlBlock blocks[] = {BlockBuilder::dma(builder.host(0), builder.tensor(0), kBytes),
                                 BlockBuilder::dma(builder.tensor(0), builder.host(kBack), kBytes)};
  if (!stream.submit(blocks) || !stream.wait_all(kBound)) return "a good job did not end";
  if (stream.endings().back().outcome != Outcome::Ok) return "a good job ended badly";
  const bool same = std::memcmp(out.data(), builder.host_words(kBack, kBytes).data(), kBytes) == 0;
  return same ? std::string() : "a good job's data came back wrong";
}

std::string bad_job(BlockBuilder& builder, TestStream& stream, std::mt19937_64& random) {
  ControlBlock bad = BlockBuilder::dma(builder.host(0), builder.tensor(0), 4096);
  switch (random() % 4) {
    case 0: bad.payload.dma.destination.region_id = random() | 1u << 20; break;
    case 1: bad.payload.dma.bytes = ~std::uint64_t{0}; break;
    case 2: bad.header.flags = 0x8000; break;
    default: bad.header.opcode = wire::Opcode::Call; break;
  }
  const auto end = stream.run(bad, kBound);
  if (!end || end->outcome != Outcome::Rejected) return "a bad job was not refused";
  if (auto reset = stream.reset(); !reset) return reset.error().message;
  return {};
}

std::string work(Device& device, std::uint64_t seed) {
  constexpr int kJobs = 150;
  std::mt19937_64 random(seed);
  BlockBuilder builder(device);
  TestStream stream(device);
  std::string wrong;
  for (int i = 0; i < kJobs && wrong.empty(); ++i) {
    wrong = random() % 3 == 0 ? bad_job(builder, stream, random) : job(builder, stream, random);
  }
  return wrong;
}

std::string occupy(Device& device) {
  constexpr std::uint64_t kManySlices = 1'000'000;
  BlockBuilder builder(device);
  TestStream copies(device), kernels(device);
  const auto firmware = value_or_throw(find_firmware());
  const auto image = kernel_image(firmware, "spin");
  load_image(builder, kernels, 0, image);
  (void)kernels.submit(builder.compute(0, image.size(), 1, kManySlices));
  std::puts("working");
  std::fflush(stdout);
  const auto until = Device::Clock::now() + kLongestOccupation;
  pollfd input{STDIN_FILENO, POLLIN, 0};
  while (Device::Clock::now() < until && ::poll(&input, 1, 0) == 0) {
    const auto end =
        copies.run(BlockBuilder::dma(builder.host(0), builder.tensor(0), BlockBuilder::kRegionBytes), kBound);
    if (!end || end->outcome != Outcome::Ok) return "a copy went wrong";
  }
  return {};
}

}  // namespace

int tenant_main(const std::string& card, const std::string& function, TenantTask task, std::uint64_t seed) {
  std::string wrong;
  try {
    const auto choice = value_or_throw(parse_function_choice(function));
    const auto attached = value_or_throw(attach(card, choice));
    wrong = task == TenantTask::Work ? work(*attached.device, seed) : occupy(*attached.device);
  } catch (const std::exception& error) {
    wrong = error.what();
  }
  if (wrong.empty()) return 0;
  std::fprintf(stderr, "tenant of %s: %s\n", function.c_str(), wrong.c_str());
  return kNotAsItShouldBe;
}

}  // namespace svp::campaign
