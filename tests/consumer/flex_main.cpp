// SPDX-License-Identifier: Apache-2.0
// A program over libflex.so (docs/torch-spyre.md): a copy to an emulated card and back, in the card's format. It has a
// type of its own whose name the driver has, too.
#include <cstdint>
#include <cstdio>
#include <flex/flex.hpp>
#include <iostream>
#include <memory>
#include <vector>

namespace spyre {
struct SpyreAllocator {
  static SpyreAllocator& instance() {
    static SpyreAllocator allocator;
    return allocator;
  }
  flex::CompositeAddress allocate(std::size_t bytes) {
    ++requests;
    return flex::getFlexRuntimeContext()->getAllocator()->allocate(
        bytes, flex::AllocationDirective(flex::PlacementPolicy::Bind, {0}, std::nullopt, flex::MemoryType::Tensor));
  }
  int requests = 0;
};
}  // namespace spyre

namespace {

// 3 rows of 100 elements: two sticks a row on the card, the second one not full.
std::shared_ptr<data_conversion_info> conversion(bool to_device) {
  auto info = std::make_shared<data_conversion_info>();
  info->isHostToSen_ = to_device;
  info->dataformat_src_ = to_device ? DataFormats::IEEE_FP32 : DataFormats::SEN169_FP16;
  info->dataformat_dst_ = to_device ? DataFormats::SEN169_FP16 : DataFormats::IEEE_FP32;
  const std::vector<std::int64_t> host{1, 100};
  const std::vector<std::int64_t> card{1, 64};
  const auto& from = to_device ? host : card;
  const auto& to = to_device ? card : host;
  info->dcsi_.push_back({{64, 3}, from, to, 0, 0});
  info->dcsi_.push_back({{36, 3}, from, to, to_device ? 64 : 192, to_device ? 192 : 64});
  return info;
}

void copy(flex::RuntimeStream& stream, std::vector<float>& host, const flex::CompositeAddress& card, bool to_device) {
  flex::DmaParams* params =
      flex::createDmaParams(host.data(), card.total_size(), to_device, &card, conversion(to_device));
  if (to_device) {
    stream.launchOperationH2D(params);
  } else {
    stream.launchOperationD2H(params);
  }
  flex::destroyDmaParams(params);
}

}  // namespace

int main() {
  std::shared_ptr<flex::RuntimeContext> runtime;
  std::cout << flex::initializeRuntime(&runtime, 0) << ", " << flex::getNumDevices() << " device\n";
  flex::RuntimeStream& stream = *runtime->getDefaultStream();
  const flex::CompositeAddress card = spyre::SpyreAllocator::instance().allocate(6 * 128);
  std::cout << card << '\n';
  std::vector<float> values(300);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  copy(stream, values, card, true);
  std::vector<float> back(300);
  copy(stream, back, card, false);
  stream.synchronize();
  if (back != values || spyre::SpyreAllocator::instance().requests != 1) {
    std::fputs("what came back is not what was sent\n", stderr);
    return 1;
  }
  return 0;
}
