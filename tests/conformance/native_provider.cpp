// SPDX-License-Identifier: Apache-2.0
// The suite over the firmware's core as a thread of this process, for the sanitizers. It has no kernels.
#include "tests/conformance/function_under_test.hpp"
#include "tests/conformance/provider.hpp"
#include "tests/unit/host_driver/device/native_card.hpp"

namespace svp::conformance {
namespace {

class NativeProvider final : public Provider {
 public:
  NativeProvider()
      : tested_(test::function_under_test()),
        card_({.virtual_functions = kBystanders, .window_bytes = 16 * wire::kMiB, .boot_arguments = {}}),
        management_(svp::value_or_throw(Device::attach(card_.slot(0), card_.device_options()))) {}

  wire::FunctionKind kind() const override {
    return tested_ == 0 ? wire::FunctionKind::Physical : wire::FunctionKind::Virtual;
  }
  std::unique_ptr<Device> open(OpenOptions options) override { return attach(tested_, options); }
  std::unique_ptr<Device> open_bystander(unsigned which) override {
    const unsigned others[2][kBystanders] = {{1, 2}, {0, 2}};
    return attach(others[tested_][which], {});
  }
  SlotHandle slot() override { return card_.slot(kPhysicalSlot + tested_); }
  // A firmware that panics ends this process.
  void expect_alive() override {}
  Device& management() override { return *management_; }
  std::uint64_t violations() override { return violations_told_by(*management_, tested_); }

 private:
  static constexpr unsigned kPhysicalSlot = 1;

  std::unique_ptr<Device> attach(unsigned function, const OpenOptions& options) {
    DeviceOptions how;
    how.optional_features = options.optional_features;
    how.faults = options.faults;
    return svp::value_or_throw(
        Device::attach(card_.slot(kPhysicalSlot + function), card_.device_options(std::move(how))));
  }

  const unsigned tested_;
  const test::NativeCard card_;
  const std::unique_ptr<Device> management_;
};

std::unique_ptr<NativeProvider> the_provider;

class OneCardPerProgram final : public testing::Environment {
 public:
  void SetUp() override { the_provider = std::make_unique<NativeProvider>(); }
  void TearDown() override { the_provider.reset(); }
};
const auto* const kRegistered = testing::AddGlobalTestEnvironment(new OneCardPerProgram);

}  // namespace

Provider& provider() { return *the_provider; }

}  // namespace svp::conformance
