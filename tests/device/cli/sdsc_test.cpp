// SPDX-License-Identifier: Apache-2.0
// `spyre sdsc run --card`, and the installed names of the compiler: a bundle on a card and on the golden model.
#include <fstream>

#include "host_driver/cli/npy_file.hpp"
#include "tests/device/cli/cli_fixture.hpp"
#include "tests/support/bundle_builder.hpp"

namespace svp {
namespace {

using ::test::BundleBuilder;
using ::test::BundleTensor;

class SdscCommands : public test::Cli {
 protected:
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

 private:
  qemu::test::TemporaryFolder folder_;
};

TEST_F(SdscCommands, TheCardComputesWhatTheGoldenModelComputes) {
  const BundleTensor a{.order = {"mb", "out"}, .stick = "out", .base = "arg_0"};
  BundleTensor b = a, scratchpad = a;
  b.base = "arg_1";
  scratchpad.base = "";
  BundleBuilder builder(2);
  builder.add({.op = "exp", .extents = {{"mb", 8}, {"out", 128}}, .tensors = {a, scratchpad}, .slices = {{"mb", 2}}});
  builder.add(
      {.op = "add", .extents = {{"mb", 8}, {"out", 128}}, .tensors = {scratchpad, a, b}, .slices = {{"mb", 2}}});
  std::ofstream(path("bundle.mlir")) << builder.text();
  for (const auto& [file, content] : builder.files()) std::ofstream(path(file)) << content;
  cli::NpyArray array{.dtype = DataType::Uint8, .size = {2048}, .bytes = {}};
  for (int i = 0; i < 1024; ++i) {  // codes of DL16 between 0.25 and 4
    array.bytes.push_back(static_cast<std::byte>(i * 37));
    array.bytes.push_back(static_cast<std::byte>(0x3A + i % 8));
  }
  cli::write_npy(path("a.npy"), array);
  const std::vector<std::string> words{"sdsc", "run", path("."), "--arg", "0=" + path("a.npy"), "--json"};
  std::vector<std::string> golden = words, card = words;
  golden.insert(golden.end(), {"--out", "1=" + path("golden.npy")});
  card.insert(card.end(), {"--out", "1=" + path("card.npy"), "--card"});
  const test::Finished on_golden = run_spyre(golden), on_card = run_spyre(card);
  ASSERT_EQ(on_golden.code, 0) << on_golden.output;
  ASSERT_EQ(on_card.code, 0) << on_card.output;
  EXPECT_EQ(nlohmann::json::parse(on_card.output, nullptr, false)["device"], "PF of an embedded card");
  const auto expected = cli::read_npy(path("golden.npy")).bytes;
  EXPECT_EQ(cli::read_npy(path("card.npy")).bytes, expected);
  EXPECT_NE(expected, array.bytes);
}

}  // namespace
}  // namespace svp
