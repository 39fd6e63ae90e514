// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/host_driver/compiler/refusals.hpp"

#include <gtest/gtest.h>

#include "host_driver/compiler/compile.hpp"

namespace refusals {

using namespace svp::compiler;

std::string said(const Row& row) {
  try {
    row.compile();
  } catch (const spyre::Error& refused) {
    return refused.info().message + " (next: " + refused.info().next_step + ")";
  }
  return "accepted";
}

void expect_refused(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    const std::string text = said(row);
    const std::size_t next = text.rfind(" (next: ");
    EXPECT_TRUE(text.starts_with(row.place + ": ")) << text;
    EXPECT_TRUE(text.substr(0, next).contains(row.what)) << text;
    EXPECT_TRUE(next != std::string::npos && text.substr(next).contains(row.next)) << text;
  }
}

std::string replaced(std::string text, const std::string& old, const std::string& replacement) {
  const auto at = text.find(old);
  EXPECT_NE(at, std::string::npos) << old;
  return at == std::string::npos ? text : text.replace(at, old.size(), replacement);
}

void edit(nlohmann::json& file, const Edits& edits) {
  const std::string outer = "/" + file.begin().key();
  const std::string body = outer + "/dscs_/0/" + file.begin().value()["dscs_"][0].begin().key() + "/";
  for (const auto& [place, value] : edits) {
    file[nlohmann::json::json_pointer(place.starts_with('/') ? outer + place : body + place)] = value;
  }
}

void compile_bundle(const test::BundleBuilder& builder, const std::vector<std::uint64_t>& lengths) {
  const Bundle bundle = read_bundle(ReadFile([&](const std::string& name) { return builder.read(name); }));
  (void)compile(bundle, {.lengths = lengths});
}

void compile_bundle(const test::BundleBuilder& builder, const std::string& text) {
  (void)compile(read_bundle(
      ReadFile([&](const std::string& name) { return name == "bundle.mlir" ? text : builder.read(name); })));
}

}  // namespace refusals
