#include "report/report_table.hpp"

#include <gtest/gtest.h>

namespace sluice::tools {
namespace {

TEST(ReportTable, IsAlignedMarkdown) {
  ReportTable table;
  table.title = "Title";
  table.columns = {"row", "seconds"};
  table.rows = {{"long name", "1"}, {"b", "2.50"}};
  table.notes = {"A note"};
  EXPECT_EQ(table.markdown(),
            "Title\n"
            "\n"
            "| row       | seconds |\n"
            "| --------- | ------- |\n"
            "| long name | 1       |\n"
            "| b         | 2.50    |\n"
            "\n"
            "A note\n");
}

}  // namespace
}  // namespace sluice::tools
