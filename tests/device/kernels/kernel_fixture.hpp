// SPDX-License-Identifier: Apache-2.0
// One bare card for all cases of a test program, and the kernel images by name.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/device/kernels/bare_card.hpp"

namespace kernel_test {

class KernelTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { booted = std::make_unique<BareCard>(kernel_folder() + "/bare_card.elf"); }
  static void TearDownTestSuite() { booted.reset(); }

  static BareCard& card() { return *booted; }

  static RunResult run(const std::string& kernel, std::span<const wire::CorrectionSymbol> symbols, unsigned cores = 1) {
    return card().run(kernel, read_image(kernel_folder() + "/" + kernel + ".img"), symbols, cores);
  }

  static void expect_success(const RunResult& result) {
    ASSERT_TRUE(result.exited) << "cause " << result.cause << " at text + 0x" << std::hex << result.pc << ", value 0x"
                               << result.value;
    ASSERT_EQ(result.status, 0u);
  }

  // The build's kernels; SPYRE_KERNEL_DIR overrides.
  static std::string kernel_folder() {
    const char* override_folder = std::getenv("SPYRE_KERNEL_DIR");
    return override_folder != nullptr ? override_folder : SPYRE_DEFAULT_KERNEL_DIR;
  }

 private:
  static inline std::unique_ptr<BareCard> booted;
};

}  // namespace kernel_test
