// SPDX-License-Identifier: Apache-2.0
// Bundles that our compiler has made SpyreCode directories of, for the program of libflex, and damaged copies of those.
// Each tensor has 512 rows of 256 DL16 numbers: a launch is given all cores, which execute each operation together.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <random>
#include <string>

#include "host_driver/program/device_program.hpp"
#include "tests/support/bundle_builder.hpp"
#include "tests/validation/campaign/flex_process.hpp"

namespace svp::campaign {

// chain    five operations: arguments 1 to 5 become two to six times argument 0
// leave    twice argument 0 stays in the scratchpad (lx)
// take     what stands there and argument 0 become argument 1
// sum      argument 1 becomes twice argument 0
// product  argument 1 becomes argument 0 times itself
class FlexBundles {
 public:
  // Throws svp::Error.
  FlexBundles();

  const std::filesystem::path& path() const { return folder_.path(); }
  // "operation 1 (Add) (line 12 of its source)"
  std::string text_of(const std::string& bundle, std::uint32_t operation) const;

  // ---- directories `copy`: that of `bundle`, but for one place
  void copy_whole(const std::string& bundle, const std::string& copy) const;
  // A bit of the binary behind its first 8 bytes is inverted: those say that it is one.
  void copy_with_inverted_bit(const std::string& bundle, const std::string& copy, std::mt19937_64& random) const;
  // spyrecode.json says that the binary is shorter: the rest is not sent.
  void copy_with_cut_binary(const std::string& bundle, const std::string& copy, std::mt19937_64& random) const;
  // A letter of the hcm is another one, in the kind of one of its symbols.
  void copy_with_other_letter(const std::string& bundle, const std::string& copy, std::mt19937_64& random) const;
  // spyrecode.json says that the program begins in the middle of its binary.
  void copy_with_other_entry(const std::string& bundle, const std::string& copy, std::mt19937_64& random) const;
  // Whether the files of the two are not the same.
  bool differ(const std::string& bundle, const std::string& copy) const;

 private:
  void add(const std::string& bundle, const ::test::BundleBuilder& builder);

  PlanFolder folder_;
  std::map<std::string, DeviceProgram> programs_;
};

}  // namespace svp::campaign
