"""Reading packed images: samples by number, as stored; checks, reports, and files of a whole data set."""
