// SPDX-License-Identifier: Apache-2.0
// Programs: directories of `spyre spyrecode make`, prepared and launched. Needs harts that run kernels.
#include <gmock/gmock.h>

#include <cstring>
#include <list>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "tests/conformance/flex/flex_runtime.hpp"
#include "tests/conformance/flex/reference.hpp"
#include "tests/support/flex/prepared_plan.hpp"

namespace flex_test {
namespace {

using testing::HasSubstr;
using Addresses = PreparedPlan::Addresses;

constexpr std::size_t kElements = std::size_t{64} * 128;  // of the plans that are built with the test

class FlexCompute : public FlexRuntime {
 protected:
  static std::string directory(const char* name) { return std::string(SPYRE_FLEX_PLANS) + "/" + name; }
  static PreparedPlan prepared(const char* name) { return {directory(name), allocator(), stream()}; }

  // DL16 elements that are all the same number.
  static flex::CompositeAddress filled(double value) {
    auto memory = tensor(kElements * 2);
    stream().fillAsync(&memory, value, DataFormats::SEN169_FP16, true);
    return memory;
  }
  static void expect_all(const flex::CompositeAddress& memory, float value) {
    const auto bytes = content(memory);
    std::size_t right = 0;
    for (std::size_t i = 0; i < kElements; ++i) {
      std::uint16_t code;
      std::memcpy(&code, &bytes[2 * i], sizeof code);
      right += code == deeptools::FloatToFp16Bin(value) ? 1U : 0U;
    }
    EXPECT_EQ(right, kElements) << "elements are not " << value;
  }
};

TEST_F(FlexCompute, AddressesReachTheProgramInEveryWay) {
  for (const char* name : {"add", "add_bound"}) {
    const PreparedPlan plan = prepared(name);
    for (const Addresses addresses : {Addresses::Fast, Addresses::Regular, Addresses::Bound}) {
      if (std::string(name) == "add_bound" && addresses != Addresses::Bound) continue;  // it makes no correction tensor
      const auto a = filled(1.5);
      const auto b = filled(static_cast<double>(addresses) + 2);
      const auto c = filled(0);
      plan.launch(stream(), {&a, &b, &c}, addresses);
      expect_all(c, static_cast<float>(addresses) + 3.5F);
    }
  }
}

// Two arguments of a device program that copies the first to the second (program_plan.cpp), by way of a workspace.
TEST_F(FlexCompute, ADeviceProgramIsAPlanLikeAnyOther) {
  const PreparedPlan plan = prepared("program");
  for (const Addresses addresses : {Addresses::Fast, Addresses::Regular, Addresses::Bound}) {
    const auto a = filled(static_cast<double>(addresses) + 2);
    const auto c = filled(0);
    plan.launch(stream(), {&a, &c}, addresses);
    expect_all(c, static_cast<float>(addresses) + 2);
  }
  flex::RuntimeStream* const other = runtime->createStream(flex::RuntimeStreamPriority::NORMAL);
  const auto a = filled(7);
  const auto c = filled(0);
  stream().synchronize();  // both are filled
  plan.launch(*other, {&a, &c}, Addresses::Bound);
  other->synchronize();
  expect_all(c, 7);
  EXPECT_THAT(what_of([&] { plan.launch(stream(), {&a}, Addresses::Bound); }), HasSubstr("takes 2 operands, 1"));
}

// The place of a program is allocated when it is launched first. A callback that is called then may launch, too, and
// may wait for a thread that launches (Python's lock).
TEST_F(FlexCompute, ACallbackOfTheFirstLaunchMayLaunchTheSameProgram) {
  const PreparedPlan plan = prepared("program");
  const auto a = filled(3);
  const auto b = filled(0);
  const auto c = filled(0);
  const auto d = filled(0);
  auto room = tensor(std::size_t{1} << 20);  // before the rest is taken
  std::list<flex::CompositeAddress> rest;
  for (std::size_t bytes = std::size_t{1} << 34; bytes >= 128;) {
    try {
      rest.push_back(tensor(bytes));
    } catch (const std::runtime_error&) {
      bytes /= 2;
    }
  }
  flex::RuntimeStream* const other = runtime->createStream(flex::RuntimeStreamPriority::NORMAL);
  stream().synchronize();  // what was filled is there for the other stream
  int calls = 0;
  allocator().registerMemoryPressureCallback([&](std::unique_lock<std::mutex>& lock) {
    ++calls;
    lock.unlock();
    room = flex::CompositeAddress();
    std::thread launching([&] {
      plan.launch(*other, {&a, &b}, Addresses::Bound);
      other->synchronize();
    });
    launching.join();  // bounded: its launch needs no lock that this thread holds
    plan.launch(stream(), {&a, &c}, Addresses::Bound);
    lock.lock();
  });
  plan.launch(stream(), {&a, &d}, Addresses::Bound);
  stream().synchronize();
  allocator().registerMemoryPressureCallback(nullptr);
  EXPECT_EQ(calls, 1);
  for (const auto* copy : {&b, &c, &d}) expect_all(*copy, 3);
}

// More than a card may touch that has a third of a machine of 15 GiB. Memory that was dropped is used again in the
// order of the stream, and nobody waits.
TEST_F(FlexCompute, ALoopThatDropsItsResultsNeedsNoSynchronize) {
  const PreparedPlan plan = prepared("program");
  const auto last = filled(0);
  for (int i = 0; i < 170; ++i) {
    const auto result = tensor(std::size_t{32} << 20);
    stream().fillAsync(&result, i, DataFormats::SEN169_FP16, true);
    if (i == 169) plan.launch(stream(), {&result, &last}, Addresses::Bound);
  }
  stream().synchronize();
  expect_all(last, 169);
}

TEST_F(FlexCompute, LaunchesFollowEachOtherWithTensorsOfTheirOwn) {
  const PreparedPlan plan = prepared("add");
  const auto one = filled(1);
  std::vector<flex::CompositeAddress> sums;
  sums.push_back(filled(0));
  for (int i = 0; i < 30; ++i) {
    sums.push_back(tensor(kElements * 2));
    plan.launch(stream(), {&sums[sums.size() - 2], &one, &sums.back()},
                i % 2 == 0 ? Addresses::Fast : Addresses::Regular);
  }
  expect_all(sums.back(), 30);
}

TEST_F(FlexCompute, AMatrixProductOfTensorsInsideOfLargerOnes) {
  const PreparedPlan plan = prepared("matmul");  // M=64, K=64, N=128
  const auto memory = tensor((64 * 64 + 64 * 128 + 64 * 128) * 2);
  const auto a = part_of(memory, 0, 64 * 64 * 2);
  const auto b = part_of(memory, 64 * 64 * 2, 64 * 128 * 2);
  const auto c = part_of(memory, (64 * 64 + 64 * 128) * 2, 64 * 128 * 2);
  stream().fillAsync(&a, 0.5, DataFormats::SEN169_FP16, true);
  stream().fillAsync(&b, 2, DataFormats::SEN169_FP16, true);
  plan.launch(stream(), {&a, &b, &c}, Addresses::Fast);
  expect_all(c, 64);
}

TEST_F(FlexCompute, OnePlanRunsOnTwoStreamsAtOnce) {
  const PreparedPlan plan = prepared("add");
  stream().synchronize();  // the program is there
  const auto run = [&](double value) {
    flex::RuntimeStream* const mine = runtime->createStream(flex::RuntimeStreamPriority::NORMAL);
    const auto a = tensor(kElements * 2);
    const auto c = tensor(kElements * 2);
    mine->fillAsync(&a, value, DataFormats::SEN169_FP16, true);
    for (int i = 0; i < 20; ++i) plan.launch(*mine, {&a, &a, &c}, Addresses::Bound);
    mine->synchronize();
    expect_all(c, static_cast<float>(2 * value));
  };
  std::thread other(run, 8.0);
  run(3.0);
  other.join();  // bounded: it synchronises and ends
}

TEST_F(FlexCompute, OperandsMayBeFreedAfterTheLaunch) {
  const PreparedPlan plan = prepared("add");
  const auto c = filled(0);
  {
    const auto a = filled(4);
    const auto b = filled(5);
    plan.launch(stream(), {&a, &b, &c}, Addresses::Fast);
  }
  const auto other = filled(-1);
  expect_all(c, 9);
}

TEST_F(FlexCompute, AProgramMayBeFreedAfterTheLaunch) {
  const auto a = filled(4);
  const auto c = filled(0);
  {
    prepared("add").launch(stream(), {&a, &a, &c}, Addresses::Bound);
  }
  const auto others = prepared("matmul");
  expect_all(c, 8);
}

TEST_F(FlexCompute, AProgramIsWhatWasSentLast) {
  const auto program = allocator().allocate(std::size_t{64} << 10, program_memory());
  const auto bytes = counted_bytes(4096);
  send(stream(), bytes.data(), bytes.size(), program);
  EXPECT_EQ(content(part_of(program, 0, 4096)), bytes);
}

// Nobody waits for a correction tensor's transfer: it stays on the host, until the program memory is read.
TEST_F(FlexCompute, ProgramMemoryHoldsTheCorrectionTensorThatWasSentLast) {
  const PreparedPlan plan = prepared("program");
  const auto offset_of = [](const flex::CompositeAddress& address) { return address.chunks().front().addr.offset; };
  const auto sent = [&] {
    std::vector<std::uint64_t> words(256 / sizeof(std::uint64_t));
    const auto bytes = content(part_of(plan.program(), 0, 256));
    std::memcpy(words.data(), bytes.data(), bytes.size());
    return words;
  };
  const auto a = filled(2);
  const auto first = filled(0);
  const auto second = filled(0);
  plan.launch(stream(), {&a, &first}, Addresses::Fast);
  const auto before = sent();
  EXPECT_THAT(before, testing::Contains(offset_of(first)));
  plan.launch(stream(), {&a, &second}, Addresses::Fast);
  const auto words = sent();
  EXPECT_THAT(words, testing::Contains(offset_of(second)));
  EXPECT_NE(words, before);
  EXPECT_EQ(sent(), words);
  expect_all(first, 2);
  expect_all(second, 2);
}

TEST_F(FlexCompute, WhatIsNoLaunchIsRefused) {
  const PreparedPlan plan = prepared("add");
  const auto a = filled(1);
  EXPECT_THAT(what_of([&] { plan.launch(stream(), {&a, &a}, Addresses::Bound); }), HasSubstr("takes 3 operands, 2"));
  const auto small = tensor(128);
  EXPECT_THAT(what_of([&] { plan.launch(stream(), {&a, &a, &small}, Addresses::Bound); }), HasSubstr("operand C"));
  EXPECT_THAT(what_of([&] { plan.launch(stream(), {&a, &a, &a}, Addresses::Fast); }), HasSubstr("overlaps"));
  flex::RuntimeStream* const other = runtime->createStream(flex::RuntimeStreamPriority::NORMAL);
  const auto launch = [&](const flex::CompositeAddress& program, std::uint64_t offset) {
    auto* params = flex::createComputeParams(&program, {}, "a program", offset);
    const std::string what = what_of([&] { other->launchOperationCompute(params); });
    flex::destroyComputeParams(params);
    return what;
  };
  EXPECT_THAT(launch(plan.program(), 512), HasSubstr("no correction tensor was sent"));
  EXPECT_THAT(launch(plan.program(), 0), HasSubstr("a program"));
  EXPECT_THAT(launch(plan.program(), std::uint64_t{1} << 40), HasSubstr("lies behind"));
  EXPECT_THAT(launch(a, 0), HasSubstr("memory of tensors"));
  const auto empty = allocator().allocate(4096, program_memory());
  EXPECT_THAT(launch(empty, 0), HasSubstr("nothing was sent"));
  EXPECT_FALSE(runtime->hasStreamError());
}

}  // namespace
}  // namespace flex_test
