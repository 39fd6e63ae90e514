// SPDX-License-Identifier: Apache-2.0
// One rank, as a program of a user: takes the device that its environment names and works on it.
//
//   rank work     bytes to the card and back, a matmul against the golden model; "VF2 of card0, 4 devices: right"
//   rank hold     opens its device, says "holding VF2 of card0", waits for the end of stdin, works, and ends
//   rank count    "4 devices"
//
// Exit code: 0 right, 1 wrong results, 2 refused (the error on stderr).
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <string_view>
#include <vector>

#include "host_driver/frontend/context.hpp"
#include "host_driver/frontend/devices.hpp"
#include "host_driver/tensor/golden/golden.hpp"
#include "shared/dl16.hpp"

namespace {

constexpr std::size_t kM = 64, kK = 128, kN = 64;

std::vector<std::uint16_t> random_dl16(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<std::uint16_t> values(count);
  for (auto& value : values) value = wire::dl16_from_fp32(normal(random));
  return values;
}

svp::HostShape shape_of(std::size_t rows, std::size_t columns) {
  return svp::HostShape::contiguous(svp::DataType::Float32,
                                    {static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns)});
}

svp::SpyreTensor to_card(svp::Context& context, const std::vector<std::uint16_t>& values, std::size_t rows) {
  std::vector<float> floats(values.size());
  std::ranges::transform(values, floats.begin(), [](std::uint16_t v) { return wire::fp32_from_dl16(v); });
  return context.to_device({shape_of(rows, values.size() / rows), std::as_bytes(std::span(floats))},
                           svp::DeviceType::Dl16);
}

bool bytes_come_back(svp::Context& context, unsigned seed) {
  std::vector<std::byte> out(3 << 20), back(out.size());
  std::mt19937 random(seed);
  std::ranges::generate(out, [&] { return static_cast<std::byte>(random()); });
  const auto storage = context.allocator().allocate(out.size());
  auto& stream = context.default_stream().flex_stream();
  stream.Launch(svp::Job::to_device(out.data(), storage->allocation_index(), out.size()), {});
  stream.Launch(svp::Job::from_device(back.data(), storage->allocation_index(), back.size()), {});
  stream.Synchronize();
  return out == back;
}

bool product_is_golden(svp::Context& context, unsigned seed) {
  const auto a = random_dl16(kM * kK, seed), b = random_dl16(kK * kN, seed + 1);
  std::vector<std::uint16_t> golden(kM * kN);
  svp::golden::matmul_dl16(a, b, golden, kM, kN, kK);
  const auto c = context.empty(svp::DataType::Float32, {kM, kN}, svp::DeviceType::Dl16);
  const svp::SpyreTensor tensors[] = {to_card(context, a, kM), to_card(context, b, kK), c};
  svp::ExecutionPlan plan({svp::Job(svp::CompiledKernel(context.kernel("matmul"), {{"M", kM}, {"K", kK}, {"N", kN}}))});
  context.load(plan);
  auto stream = context.default_stream();
  svp::LaunchKernel(stream, plan, tensors);
  std::vector<float> result(kM * kN);
  context.to_host(c, {shape_of(kM, kN), std::as_writable_bytes(std::span(result))});
  return std::ranges::equal(result, golden, {}, {}, [](std::uint16_t v) { return wire::fp32_from_dl16(v); });
}

int work(svp::Context& context) {
  const auto seed = static_cast<unsigned>(::getpid());
  const bool right = bytes_come_back(context, seed) && product_is_golden(context, seed);
  fmt::print("{}, {} devices: {}\n", context.device_name(), svp::device_count(), right ? "right" : "WRONG");
  return right ? 0 : 1;
}

void wait_for_end_of_stdin() {
  // bounded: its parent test closes the pipe, or ends and it closes
  for (char byte; ::read(STDIN_FILENO, &byte, 1) > 0;) {
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view command = argc == 2 ? argv[1] : "";
  try {
    if (command == "count") {
      fmt::print("{} devices\n", svp::device_count());
      return 0;
    }
    if (command != "work" && command != "hold") return 2;
    const auto context = svp::Context::open();
    if (command == "hold") {
      fmt::print("holding {}\n", context->device_name());
      std::fflush(stdout);
      wait_for_end_of_stdin();
    }
    return work(*context);
  } catch (const std::exception& error) {
    fmt::print(stderr, "rank: {}\n", error.what());
    return 2;
  }
}
