"""What each recorded log says, written down by reading it.

A line a run: file number, run in the file, collective, ranks, hosts, status, rows, busbw of the last row out of place
and in place, footer's average. ``-`` where there is none, ``?`` where the log does not tell.
"""

LOGS = """
01 1 all_reduce       8  1 ok           34  235.26 235.03   68.4048
02 1 all_gather       8  1 ok           34  223.39 230.07   58.2651
03 1 alltoall         8  1 ok           34  224.31 226.16   58.6481
04 1 broadcast        8  1 ok           34  232.81 234.70   64.8653
05 1 reduce           8  1 ok           34  228.38 228.83   65.018
06 1 reduce_scatter   8  1 ok           34  231.52 231.25   60.168
08 1 ?                2  2 ok           11  0.61   0.61     0.565546
09 1 all_reduce      16  2 ok           32  487.27 487.01   124.196
11 1 all_reduce       8  2 ok           30  74.30  74.40    25.0537
24 1 alltoall        16  2 failed        0  -      -        -
24 2 sendrecv        16  2 failed        0  -      -        -
25 1 alltoall         2  2 failed        0  -      -        -
26 1 alltoall         2  2 ok           10  0.90   0.84     5.76435
26 2 sendrecv         2  2 ok           10  0.97   0.99     5.05954
27 1 alltoall         2  2 ok           10  13.45  13.51    13.4211
27 2 sendrecv         2  2 ok           10  13.50  13.51    13.4679
28 1 all_reduce      80 10 ok           10  320.54 322.70   265.631
28 2 all_gather      80 10 ok           10  324.29 322.95   218.677
28 3 reduce_scatter  80 10 ok           10  323.40 321.44   216.683
28 4 alltoall        80 10 ok           10  50.38  50.58    47.1472
28 5 sendrecv        80 10 ok           10  15.22  15.23    15.1671
29 1 all_reduce       8  1 ok           10  482.15 481.69   437.897
29 2 all_gather       8  1 ok           10  363.19 365.97   328.449
29 3 reduce_scatter   8  1 ok           10  364.35 364.99   330.783
29 4 alltoall         8  1 ok           10  347.94 347.51   313.778
29 5 sendrecv         8  1 ok           10  367.25 366.95   279.995
30 1 all_reduce       2  2 ok            5  46.32  46.46    43.6076
30 2 sendrecv         2  2 ok            5  43.57  43.65    42.9182
31 1 all_reduce      16  ? incomplete   29  78.33  78.33    -
32 1 all_reduce      16  ? incomplete   32  487.09 487.26   -
33 1 all_reduce      16  ? ok            7  437.79 437.89   52.9753
34 1 all_reduce       8  ? ok           32  483.05 483.35   156.742
35 1 all_reduce       ?  ? ok            3  369.86 369.42   84.0569
36 1 all_reduce      16  2 ok           30  43.81  43.72    11.2432
42 1 all_reduce      16  2 ok            5  471.22 470.75   464.075
46 1 all_reduce       8  2 ok           25  122.57 123.11   19.7866
47 1 all_reduce       8  2 ok           25  5.43   5.41     1.58767
48 1 all_reduce       2  2 ok            8  22.86  22.88    14.9966
49 1 all_reduce       8  1 ok           32  479.90 479.99   159.151
50 1 all_reduce      16  ? ok           11  683.52 679.54   165.789
51 1 ?               16  ? ok           11  188.54 188.59   146.948
52 1 all_gather      16  ? ok           11  50.17  50.29    40.6043
53 1 all_reduce      16  ? ok           29  696.06 702.91   137.179
54 1 all_reduce      16  ? ok           31  467.54 468.46   125.499
55 1 all_gather      16  2 ok           24  260.03 259.25   59.3638
56 1 all_gather      16  4 incomplete    0  -      -        22.2173
57 1 all_gather      16  4 incomplete    0  -      -        11.2291
58 1 all_reduce       2  2 ok           24  31.89  31.88    15.5188
59 1 all_gather       2  1 incomplete    8  482.71 564.14   -
60 1 all_gather       4  2 incomplete    0  -      -        -
61 1 all_gather       2  2 ok           28  36.67  45.14    12.5463
62 1 all_gather       2  2 ok           24  32.20  33.32    15.0709
63 1 all_gather      16  ? ok           31  188.73 188.90   53.8932
64 1 ?               16  ? ok           10  70.90  71.35    30.9622
72 1 ?                8  1 failed        0  -      -        -
78 1 all_gather      16  2 ok            6  325.72 332.58   122.073
"""

EXCERPTS = frozenset(("33", "35", "50", "56", "57", "62", "78"))
"""Logs whose publisher left rows out: the footer's average is not that of the rows."""
