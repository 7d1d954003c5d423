// Runs one program: `planted_bugs <name> wrong|correct`.

#include <cstdio>
#include <string_view>

#include "planted_bug.hpp"

namespace {

constexpr int kUsage = 2;

const planted::PlantedBug* find(std::string_view name) {
  using namespace planted;  // NOLINT(google-build-using-namespace): five functions of it
  for (const auto bugs : {stream_bugs(), graph_bugs(), host_bugs(), memory_bugs(), process_bugs()}) {
    for (const PlantedBug& bug : bugs) {
      if (name == bug.name) return &bug;
    }
  }
  return nullptr;
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view how = count == 3 ? arguments[2] : "";
  const planted::PlantedBug* bug = count == 3 ? find(arguments[1]) : nullptr;
  if (bug == nullptr || (how != "wrong" && how != "correct")) {
    std::fprintf(stderr, "usage: planted_bugs NAME wrong|correct\n");
    return kUsage;
  }
  bug->run(how == "wrong");
}
