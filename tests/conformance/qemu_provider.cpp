// SPDX-License-Identifier: Apache-2.0
// The suite over a card in the emulator.
#include <elf.h>

#include "host_driver/debug/elf_image.hpp"
#include "tests/conformance/function_under_test.hpp"
#include "tests/conformance/kernel_provider.hpp"
#include "tests/device/card/card_support.hpp"

namespace svp::conformance {
namespace {

class QemuProvider final : public KernelProvider {
 public:
  QemuProvider()
      : tested_(test::function_under_test()),
        card_(boot()),
        management_(svp::value_or_throw(card_->open_management())) {}

  wire::FunctionKind kind() const override {
    return tested_ == 0 ? wire::FunctionKind::Physical : wire::FunctionKind::Virtual;
  }
  std::unique_ptr<Device> open(OpenOptions options) override { return open_function(tested_, std::move(options)); }
  std::unique_ptr<Device> open_bystander(unsigned which) override { return open_function(bystander(which), {}); }
  SlotHandle slot() override {
    auto handle = card_->machine().slot(kPhysicalSlot + tested_);
    if (!handle) throw std::runtime_error(qemu::to_string(handle.error()));
    return *std::move(handle);
  }
  void expect_alive() override {
    EXPECT_TRUE(card_->machine().alive());
    EXPECT_EQ(card_->machine().console().find("PANIC"), std::string::npos) << card_->machine().console();
  }

  Device& management() override { return *management_; }
  std::uint64_t violations() override { return violations_told_by(*management_, tested_); }

  std::vector<std::byte> kernel_image(std::string_view name) override { return test::kernel_image(*card_, name); }
  std::vector<std::byte> firmware_code() override {
    const ElfImage image = svp::value_or_throw(ElfImage::open(card_->options().firmware));
    std::vector<std::byte> code;
    for (const ElfImage::Segment& segment : image.segments()) {
      if ((segment.flags & PF_W) != 0) continue;
      const auto memory = card_->machine().read_memory(segment.address, segment.memory_bytes);
      if (!memory) throw std::runtime_error(qemu::to_string(memory.error()));
      code.insert(code.end(), memory->begin(), memory->end());
    }
    return code;
  }
  std::unique_ptr<svp::Context> open_context() override { return context(tested_); }
  std::unique_ptr<svp::Context> open_bystander_context(unsigned which) override { return context(bystander(which)); }

 private:
  static constexpr unsigned kPhysicalSlot = 1;

  static std::shared_ptr<Card> boot() {
    CardOptions options = test::small_card("watchdog=2000");
    options.virtual_functions = kBystanders;
    return test::boot(std::move(options));
  }
  // Functions are numbered as for svp::ContextOptions: 0 the PF, n the VF n.
  unsigned bystander(unsigned which) const {
    const unsigned others[2][kBystanders] = {{1, 2}, {0, 2}};
    return others[tested_][which];
  }
  std::unique_ptr<Device> open_function(unsigned function, OpenOptions options) {
    return svp::value_or_throw(function == 0 ? card_->open_physical(std::move(options))
                                             : card_->open_virtual(function, std::move(options)));
  }
  std::unique_ptr<svp::Context> context(unsigned function) {
    svp::ContextOptions options;
    options.function = function;
    return svp::Context::open(card_, std::move(options));
  }

  const unsigned tested_;
  const std::shared_ptr<Card> card_;
  const std::unique_ptr<Device> management_;
};

std::unique_ptr<QemuProvider> the_provider;

class OneCardPerProgram final : public testing::Environment {
 public:
  void SetUp() override { the_provider = std::make_unique<QemuProvider>(); }
  void TearDown() override { the_provider.reset(); }
};
const auto* const kRegistered = testing::AddGlobalTestEnvironment(new OneCardPerProgram);

}  // namespace

Provider& provider() { return *the_provider; }
KernelProvider& kernel_provider() { return *the_provider; }

}  // namespace svp::conformance
