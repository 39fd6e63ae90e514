// SPDX-License-Identifier: Apache-2.0
// The firmware core on a thread in place of a card: what sanitizers can look into.
#include <cstdlib>
#include <string_view>

#include "host_driver/compat/flex/2026-08-21/open_device.hpp"
#include "tests/unit/host_driver/device/native_card.hpp"

namespace flex::detail {
namespace {

struct NativeDevice {
  svp::test::NativeCard card{{.window_bytes = 32 * wire::kMiB}};
  svp::Runtime runtime;

  explicit NativeDevice(unsigned slot) : runtime(card.attach(slot), options()) {}
  static svp::RuntimeOptions options() {
    svp::RuntimeOptions options;
    options.allocator.region_bytes = {64 * wire::kMiB};
    options.staging.chunk_bytes = wire::kMiB;
    return options;
  }
};

bool is_virtual() {
  const char* function = std::getenv("SPYRE_TEST_FUNCTION");
  return function != nullptr && std::string_view(function) == "VF";
}

}  // namespace

int count_devices() { return 1; }

OpenedDevice open_device(int /*index*/) {
  const auto device = std::make_shared<NativeDevice>(is_virtual() ? 2 : 1);
  return {device, &device->runtime, "a native card"};
}

}  // namespace flex::detail
