"""How sure a number is: intervals, paired tests, rank correlation, and how many examples are needed.

Everything takes one value per example, NaN where a metric is not defined, and depends on nothing else but its seed:

    averages.by_example(...)       several seeds per example: averaged first, since they are not further examples
    bootstrap.interval(values)     how sure is this mean?
    compare.pairwise(values)       which explainers differ, and which are as good as the best?
    compare.compare_all(metrics)   the same for all metrics of a report, with one error rate for all of it
    means.mean_tests(differences)  which mean differences are not zero?
    paired.wilcoxon(a, b)          the signed-rank test, for tables of papers that use it
    correlation.kendall(a, b)      do two lists of numbers order things alike?
    crossed.crossed_gain(a, b)     how sure is a gain when both students and test items are samples?
    power.examples_needed(a - b)   how many examples would show such a difference?
    power.fewest_texts(tests)      how many are needed for any verdict at all?
    power.raters_needed(0.6, 60)   how many people, to find that they prefer one of two things?
    plackett_luce.intervals(...)   which things do people rank first? Worths from rankings with ties
    clustered.estimated(...)       how sure is an estimate when answers share raters and items?
    agreement.between(...)         do raters rank alike?
"""
