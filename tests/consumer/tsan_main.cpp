// SPDX-License-Identifier: Apache-2.0
// Threads that share a context, under ThreadSanitizer with the suppressions that are installed: no report. With an
// argument: a race of the program itself, which is reported all the same.
#include <array>
#include <cstdio>
#include <memory>
#include <span>
#include <spyre/spyre.hpp>
#include <thread>
#include <vector>

namespace {

constexpr std::int64_t kExtent = 64;

void work(spyre::Context& context, const spyre::ExecutionPlan& plan, const spyre::SpyreTensor& a) {
  const auto shape = spyre::HostShape::contiguous(spyre::DataType::Float32, {kExtent, kExtent});
  spyre::SpyreStream stream = context.stream();
  for (int i = 0; i < 20; ++i) {
    const auto c = context.empty(spyre::DataType::Float32, {kExtent, kExtent}, spyre::DeviceType::Dl16);
    spyre::LaunchKernel(stream, plan, std::array{a, a, c});
    int calls = 0;
    stream.LaunchHost([&calls, kept = std::make_shared<int>(1)] { calls += *kept; });
    context.default_stream().Wait(stream.Record());
    const auto d = spyre::ops::relu(context, c, {.stream = stream});
    std::vector<float> back(kExtent * kExtent);
    stream.Synchronize();
    context.to_host(d, {shape, std::as_writable_bytes(std::span(back))});
    if (calls != 1 || back.front() != 2) std::puts("wrong");
  }
}

}  // namespace

int main(int argc, char**) {
  const auto context = spyre::Context::open();
  const std::vector<float> values(kExtent * kExtent, 1.0F);
  const auto shape = spyre::HostShape::contiguous(spyre::DataType::Float32, {kExtent, kExtent});
  const auto a = context->to_device({shape, std::as_bytes(std::span(values))}, spyre::DeviceType::Dl16);
  spyre::ExecutionPlan plan;
  plan.add(spyre::Job(spyre::CompiledKernel(context->kernel("add"), {{"M", kExtent}, {"N", kExtent}})));
  context->load(plan);
  int raced = 0;
  std::array<std::thread, 2> threads;
  for (std::thread& thread : threads) {
    thread = std::thread([&] {
      if (argc > 1) ++raced;
      work(*context, plan, a);
    });
  }
  for (std::thread& thread : threads) thread.join();  // bounded: each works and ends
  std::puts("done");
}
