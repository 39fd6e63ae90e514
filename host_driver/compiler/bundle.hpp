// SPDX-License-Identifier: Apache-2.0
// A bundle: bundle.mlir and the SDSC files that it names, read and checked against each other.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "host_driver/compiler/bundle_text.hpp"
#include "host_driver/compiler/sdsc.hpp"

namespace svp::compiler {

struct Bundle {
  BundleText text;
  std::vector<Sdsc> sdsc;  // in the order in which they are named first

  const Sdsc& of(const Execution& execution) const;
};

// The text of a file of the bundle. Throws InvalidPlan when there is none.
using ReadFile = std::function<std::string(const std::string& name)>;
// All files of a bundle: content by name.
using BundleFiles = std::map<std::string, std::string>;

// Throws InvalidPlan: as parse_bundle_text() and parse_sdsc(), for a file that the directory does not have, and for an
// execution that gives an SDSC no address for one of its symbol ids, or two.
Bundle read_bundle(const ReadFile& read);
Bundle read_bundle(const BundleFiles& files);
Bundle read_bundle(const std::filesystem::path& directory);
// Likewise, and `files` gets what was read.
Bundle read_bundle(const std::filesystem::path& directory, BundleFiles& files);

// What the execution gives a symbol id of its SDSC.
const SymbolicAddress& address_of(const Execution& execution, std::int64_t id);

}  // namespace svp::compiler
