// SPDX-License-Identifier: Apache-2.0
// Functions of the host: callbacks, and correction tensors as an hcm describes them.
#include <gmock/gmock.h>

#include <spyrecode-host-functions/fast_process_hcm.h>
#include <spyrecode-host-functions/processSpyreCodeArtifacts.h>

#include <thread>

#include "tests/conformance/flex/flex_runtime.hpp"

namespace flex_test {
namespace {

using testing::HasSubstr;

constexpr const char* kAdd = R"({"format": "1", "vdci": {"inputSym": ["2", "0"]}, "senConstants": [], "symbols": [)"
                             R"({"kind": "address", "input": "0"}, {"kind": "stride", "input": "1", "axis": "1"}, )"
                             R"({"kind": "address", "input": "1"}]})";

class FlexHostCompute : public FlexRuntime {
 protected:
  static void call(std::function<void(void*)> callback, void* argument, bool barrier = false) {
    struct Guard {
      flex::HostCallbackParams* params;
      ~Guard() { flex::destroyHostCallbackParams(params); }
    } guard{flex::createHostCallbackParams(std::move(callback), argument, barrier)};
    stream().launchOperationHostCallback(guard.params);
  }
};

TEST_F(FlexHostCompute, ACallbackRunsBeforeTheLaunchReturns) {
  int called = 0;
  const auto caller = std::this_thread::get_id();
  call(
      [&](void* argument) {
        EXPECT_EQ(std::this_thread::get_id(), caller);
        ++*static_cast<int*>(argument);
      },
      &called);
  EXPECT_EQ(called, 1);
  EXPECT_THROW(call([](void*) { throw std::domain_error("of the program"); }, nullptr), std::domain_error);
}

TEST_F(FlexHostCompute, ACallbackBehindABarrierSeesWhatWasLaunchedBefore) {
  const auto bytes = counted_bytes(std::size_t{2} << 20);
  const auto memory = tensor(bytes.size());
  send(stream(), bytes.data(), bytes.size(), memory);
  std::vector<std::uint8_t> back(bytes.size());
  receive(stream(), back.data(), back.size(), memory);
  call([&](void*) { EXPECT_EQ(back, bytes); }, nullptr, true);
}

// One buffer is filled and sent for launch after launch.
TEST_F(FlexHostCompute, ABufferMayBeFilledAgainAtOnce) {
  const auto memory = tensor(512 * 32);
  std::vector<std::uint8_t> buffer(512);
  std::vector<std::uint8_t> expected;
  for (unsigned i = 0; i < 32; ++i) {
    call([&](void*) { buffer = counted_bytes(512, i); }, nullptr);
    send(stream(), buffer.data(), buffer.size(), part_of(memory, std::uint64_t{512} * i, 512));
    expected.insert(expected.end(), buffer.begin(), buffer.end());
  }
  EXPECT_EQ(content(memory), expected);
}

TEST(FlexHcm, NamesWhatItReads) {
  Hcm hcm;
  hcm.importJsonStr(kAdd);
  EXPECT_THAT(hcm.vdci.inputSym_, testing::ElementsAre("2", "0"));
}

TEST(FlexHcm, TheFastWayMakesTheSameBytes) {
  Hcm hcm;
  hcm.importJsonStr(kAdd);
  deeptools::FastHcmPatchPlan plan;
  ASSERT_TRUE(deeptools::buildFastHcmPatchPlan(plan, hcm));
  EXPECT_EQ(plan.num_input_symbols, 2U);
  EXPECT_EQ(plan.output_size, 256U);
  EXPECT_THAT(plan.patches, testing::ElementsAre(128, 192));
  const std::vector<std::int64_t> two{(std::int64_t{3} << 34) | 256, 512};
  std::vector<std::uint8_t> fast(plan.output_size, 0xAA);
  std::vector<std::uint8_t> regular(plan.output_size, 0xBB);
  EXPECT_TRUE(deeptools::processComputeOnHostCommandFast(plan, hcm, fast.data(), two.data(), two.size()));
  deeptools::processComputeOnHostCommand(hcm, regular.data(), &two);
  EXPECT_EQ(fast, regular);
  // One address per tensor: inputs are numbers of tensors then. The plan is for two.
  const std::vector<std::int64_t> three{512, 7 * 128, (std::int64_t{3} << 34) | 256};
  EXPECT_FALSE(deeptools::processComputeOnHostCommandFast(plan, hcm, fast.data(), three.data(), three.size()));
  EXPECT_EQ(fast, regular);
  deeptools::processComputeOnHostCommand(hcm, fast.data(), nullptr);
  EXPECT_NE(fast, regular);
}

TEST(FlexHcm, WhatDescribesNothingIsRefusedWhenItIsExecuted) {
  Hcm hcm;
  hcm.importJsonStr(R"({"vdci": {}, "senConstants": []})");
  deeptools::FastHcmPatchPlan plan;
  EXPECT_FALSE(deeptools::buildFastHcmPatchPlan(plan, hcm));
  std::uint8_t output[256];
  EXPECT_THAT(what_of([&] { deeptools::processComputeOnHostCommand(hcm, output, nullptr); }),
              HasSubstr("Expect one DCI"));
  const std::int64_t address = 0;
  EXPECT_THAT(what_of([&] { deeptools::processComputeOnHostCommandFast(plan, hcm, output, &address, 1); }),
              HasSubstr("Expect one DCI"));
}

TEST(FlexHcm, WhatIsMalformedIsRefusedWhenItIsRead) {
  Hcm hcm;
  EXPECT_THAT(what_of([&] { hcm.importJsonStr(R"({"vdci": "invalid", "senConstants": []})"); }),
              HasSubstr("vdci field"));
  EXPECT_THAT(what_of([&] { hcm.importJsonStr("{"); }), HasSubstr("no JSON object"));
  EXPECT_THAT(what_of([&] { hcm.importJsonStr(R"({"format": "2", "vdci": {}})"); }), HasSubstr("format"));
}

TEST(FlexHcm, AddressesThatAreNoneAreRefused) {
  Hcm hcm;
  hcm.importJsonStr(kAdd);
  std::vector<std::uint8_t> output(256);
  const std::vector<std::int64_t> one{0};
  EXPECT_THAT(what_of([&] { deeptools::processComputeOnHostCommand(hcm, output.data(), &one); }),
              HasSubstr("reads 2 addresses, 1"));
  const std::vector<std::int64_t> program{static_cast<std::int64_t>(flex::PROG_OFFSET_BASE), 0};
  EXPECT_THAT(what_of([&] { deeptools::processComputeOnHostCommand(hcm, output.data(), &program); }),
              HasSubstr("no segment of tensors"));
}

}  // namespace
}  // namespace flex_test
