// SPDX-License-Identifier: Apache-2.0
// A bystander of the function under test whose device program computes meanwhile: an addition that the engine gives to
// the compute array where the card has one.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include "host_driver/program/device_program.hpp"
#include "host_driver/tensor/golden/golden.hpp"
#include "shared/dl16.hpp"
#include "tests/conformance/attempts.hpp"
#include "tests/conformance/kernel_provider.hpp"
#include "tests/support/program_builder.hpp"

namespace svp::conformance {

// A neighbour that adds two tensors again and again.
class AddingNeighbour {
 public:
  AddingNeighbour() : context_(kernel_provider().open_bystander_context()) {
    std::mt19937_64 random(attack_seed());
    for (auto* values : {&a_, &b_}) {
      values->resize(kElements);
      for (auto& value : *values) value = wire::dl16_from_fp32(static_cast<float>(random() % 2000) / 16 - 60);
    }
    expected_.resize(kElements);
    golden::add_dl16(a_, b_, expected_);
    tensors_ = {to_device(a_), to_device(b_), context_->empty(DataType::Float32, {kRows, kColumns}, DeviceType::Dl16)};
    plan_.emplace({Job(addition())});
    context_->load(*plan_);
  }
  ~AddingNeighbour() {
    stop_ = true;
    if (worker_.joinable()) worker_.join();  // bounded: the flag is set; each of its waits is bounded
  }

  void start() {
    worker_ = std::thread([this] {
      try {
        for (; !stop_; ++rounds_) wrong_ += !add_once();
      } catch (const Error& error) {
        ADD_FAILURE() << error.what();
      }
    });
  }
  void stop() {
    const std::uint64_t before = rounds_;
    for (const auto limit = test::soon(); rounds_ < before + 2 && Device::Clock::now() < limit;)
      std::this_thread::yield();
    EXPECT_GE(rounds_, before + 2) << "the neighbour does not get on";
    stop_ = true;
    worker_.join();  // bounded: the flag is set; each of its waits is bounded
    EXPECT_EQ(wrong_, 0u) << "the neighbour computed something else";
  }

 private:
  static constexpr std::int64_t kRows = 64;
  static constexpr std::int64_t kColumns = 64;
  static constexpr std::size_t kElements = kRows * kColumns;

  // The tensors are as wide as a stick: all their elements lie in one run.
  static std::shared_ptr<const DeviceProgram> addition() {
    test::ProgramBuilder builder;
    builder.add(test::dense_operation(builder, wire::program::Opcode::Add, kElements, 2));
    return std::make_shared<const DeviceProgram>("add", builder.build());
  }
  static HostShape shape() { return HostShape::contiguous(DataType::Float32, {kRows, kColumns}); }
  SpyreTensor to_device(const std::vector<std::uint16_t>& values) {
    std::vector<float> floats(values.size());
    std::ranges::transform(values, floats.begin(), [](std::uint16_t v) { return wire::fp32_from_dl16(v); });
    return context_->to_device({shape(), std::as_bytes(std::span(floats))}, DeviceType::Dl16);
  }
  bool add_once() {
    svp::SpyreStream stream = context_->default_stream();
    LaunchKernel(stream, *plan_, tensors_);
    std::vector<float> floats(kElements);
    context_->to_host(tensors_[2], {shape(), std::as_writable_bytes(std::span(floats))}, stream);
    std::vector<std::uint16_t> sum(kElements);
    std::ranges::transform(floats, sum.begin(), [](float v) { return wire::dl16_from_fp32(v); });
    return sum == expected_;
  }

  std::unique_ptr<svp::Context> context_;
  std::vector<std::uint16_t> a_, b_, expected_;
  std::vector<SpyreTensor> tensors_;
  std::optional<ExecutionPlan> plan_;
  std::atomic<bool> stop_{false};
  std::atomic<std::uint64_t> rounds_{0};
  std::atomic<std::uint64_t> wrong_{0};
  std::thread worker_;
};

}  // namespace svp::conformance
