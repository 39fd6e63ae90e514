// SPDX-License-Identifier: Apache-2.0
#include "host_driver/compiler/bundle.hpp"

#include <algorithm>
#include <functional>
#include <vector>

#include "host_driver/spyrecode/directory.hpp"

namespace svp::compiler {

namespace {

// The end: the execution has none of this id.
std::vector<Execution::Binding>::const_iterator find_binding(const Execution& execution, std::int64_t id) {
  const auto& bindings = execution.bindings;
  const auto found = std::ranges::lower_bound(bindings, id, std::ranges::greater{}, &Execution::Binding::id);
  return found != bindings.end() && found->id == id ? found : bindings.end();
}

void check_bindings(const Sdsc& sdsc, const Execution& execution) {
  const SourcePlace place{.file = kBundleFileName, .line = execution.line, .path = {}};
  const auto twice = std::ranges::adjacent_find(execution.bindings, {}, &Execution::Binding::id);
  if (twice != execution.bindings.end()) refuse(place, "symbol id " + std::to_string(twice->id) + " stands twice");
  for (const SdscTensor& tensor : sdsc.tensors) {
    if (tensor.memory == Memory::Lx) continue;
    for (const std::int64_t id : tensor.start) {
      if (find_binding(execution, id) != execution.bindings.end()) continue;
      refuse(place,
             "symbol id " + std::to_string(id) + " of " + tensor.name + " (" + sdsc.file + ") is given no value");
    }
  }
}

// The place is where the file is named.
std::string read_named(const ReadFile& read, const std::string& name, const SourcePlace& place) {
  try {
    return read(name);
  } catch (const InvalidPlan& refused) {
    std::string what = refused.info().message;
    if (what.starts_with(place.file + ": ")) what.erase(0, place.file.size() + 2);  // bundle.mlir itself
    refuse(place, what, "name a directory that has bundle.mlir and all files that it names, none of them a link");
  }
}

void read_files(const ReadFile& read, const std::vector<Statement>& body, Bundle& bundle) {
  for (const Statement& statement : body) {
    if (const auto* loop = std::get_if<Loop>(&statement.what)) {
      read_files(read, loop->body, bundle);
      continue;
    }
    const auto& execution = std::get<Execution>(statement.what);
    auto found = std::ranges::find(bundle.sdsc, execution.sdsc_file, &Sdsc::file);
    if (found == bundle.sdsc.end()) {
      const SourcePlace place{.file = kBundleFileName, .line = execution.line, .path = {}};
      bundle.sdsc.push_back(parse_sdsc(read_named(read, execution.sdsc_file, place), execution.sdsc_file));
      found = std::prev(bundle.sdsc.end());
    }
    check_bindings(*found, execution);
  }
}

}  // namespace

const Sdsc& Bundle::of(const Execution& execution) const {
  return *std::ranges::find(sdsc, execution.sdsc_file, &Sdsc::file);
}

Bundle read_bundle(const ReadFile& read) {
  const SourcePlace whole{.file = kBundleFileName, .line = 0, .path = {}};
  Bundle bundle{.text = parse_bundle_text(read_named(read, kBundleFileName, whole)), .sdsc = {}};
  read_files(read, bundle.text.body, bundle);
  if (const auto& size = bundle.text.dynamic_size) {  // no SDSC says of which dimension
    refuse({.file = kBundleFileName, .line = size->line, .path = {}},
           "parameter " + size->parameter + " (" + size->bounds +
               ") is a size that only the launch knows: " + std::string(kNoSizes),
           kStaticShapes);
  }
  return bundle;
}

Bundle read_bundle(const BundleFiles& files) {
  return read_bundle(ReadFile([&](const std::string& name) {
    const auto found = files.find(name);
    if (found == files.end()) refuse({.file = name, .line = 0, .path = {}}, "is not among the files of the bundle");
    return found->second;
  }));
}

Bundle read_bundle(const std::filesystem::path& directory) {
  BundleFiles files;
  return read_bundle(directory, files);
}

Bundle read_bundle(const std::filesystem::path& directory, BundleFiles& files) {
  const spyrecode::Directory folder(directory);
  return read_bundle(ReadFile([&](const std::string& name) {
    const auto content = folder.read_all(name, std::max(kMostBundleBytes, kMostSdscBytes));
    std::string text(reinterpret_cast<const char*>(content.bytes.data()), content.bytes.size());
    files.insert_or_assign(name, text);
    return text;
  }));
}

const SymbolicAddress& address_of(const Execution& execution, std::int64_t id) {
  return find_binding(execution, id)->address;
}

}  // namespace svp::compiler
