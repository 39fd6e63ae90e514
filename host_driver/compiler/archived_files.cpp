// SPDX-License-Identifier: Apache-2.0
#include "host_driver/compiler/archived_files.hpp"

#include <nlohmann/json.hpp>

namespace svp::compiler {

BundleFiles archived_files(const BundleFiles& files) {
  BundleFiles archived = files;
  for (auto& [name, text] : archived) {
    if (name == kBundleFileName) continue;
    auto sdsc = nlohmann::json::parse(text);
    for (auto& operation : sdsc) operation.erase("debug_handle_");
    text = sdsc.dump();
  }
  return archived;
}

}  // namespace svp::compiler
